"""Events of the native core, and the timelines made of them."""
