package crawltest

import (
	"runtime"
	"testing"
	"testing/synctest"
)

// Bubble runs a test in virtual time, on one thread: the timers of a bubble share one context of
// the race detector, which two threads at once corrupt until it dies of a SIGSEGV
// (golang/go#78156). What races is found all the same, as the detector goes by the order of events.
// Not for tests that run beside others.
func Bubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, fn)
}
