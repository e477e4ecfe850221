"""What operators see of a broker cluster. Entry: `poller.ClusterPoller`; pure: `snapshot`,
`events`, `history`, `tree`."""
