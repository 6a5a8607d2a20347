"""What ran where and when: events of the native core, and timelines made of them."""
