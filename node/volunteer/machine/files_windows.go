package machine

// OpenFiles is how many files and connections this process may have open; 0: Windows has no such
// limit.
func OpenFiles() uint64 { return 0 }
