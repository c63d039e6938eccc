"""The experiment that finds a slowdown's cause: designed, run and answered."""
