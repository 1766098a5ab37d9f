package main

import (
	"os"
	"runtime/debug"
)

// memoryGoal is what a peer's heap is kept below where that is possible, in bytes: near it the garbage collector works harder rather than later, so
// that a volunteer's machine is not asked for twice the memory that is in use. GOMEMLIMIT, where set, is obeyed instead.
const memoryGoal = 128 << 20

func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryGoal)
	}
}
