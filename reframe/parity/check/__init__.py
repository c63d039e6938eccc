"""What a check imports: the workload, its mixins, metrics and sizes."""
