"""A module a day: functions for the expressions in its lesson, and the plots that it shows."""
