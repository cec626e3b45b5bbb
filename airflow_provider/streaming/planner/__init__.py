"""From a job to what the driver and the workers carry out: pure, without a clock, a client or Spark."""
