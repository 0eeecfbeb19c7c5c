"""Long runs that look for defects: power losses, corruption, kills, schedules, chaos (``python -m campaigns.NAME``)."""
