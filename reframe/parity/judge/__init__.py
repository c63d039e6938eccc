"""The meaning of stored nights: no ReFrame, no scheduler, no process started."""
