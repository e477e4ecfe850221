"""What operators see of a broker cluster. Entry: `watcher.Watcher`; pure: `picture`, `events`,
`history`, `tree`."""
