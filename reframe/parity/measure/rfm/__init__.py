"""Every use of a private ReFrame name: each works around a limit of ReFrame 4.9 or 4.10."""
