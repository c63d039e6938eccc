"""What is known of the cause of a slower figure: where, in what part of the machine, what changed.

`cause.told` gives it to the cells of a judged session, `cause.Night` to one of them; `model` is what is told."""
