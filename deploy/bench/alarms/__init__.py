"""What alarms cost and how soon they come: `./databus bench alarms`."""
