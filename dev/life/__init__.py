"""Lives of a made-up system, night by night, through the product's own way of storing, judging and telling."""
