package machine

// OpenFiles returns 0: Windows has no limit on open files and connections.
func OpenFiles() uint64 { return 0 }
