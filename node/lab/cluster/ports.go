package cluster

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// served are the flags of run with a listen address, which must be unique on a machine.
var served = []string{"--dashboard", "--metrics", "--pprof", "--optout-listen"}

// ofPeer returns the flags for peer i: a fixed port is for peer 1, and incremented for the others.
// Invalid addresses are passed to run, which reports them.
func ofPeer(args []string, i int) []string {
	mine := slices.Clone(args)
	for at, arg := range mine {
		name, addr, _ := strings.Cut(arg, "=")
		host, text, err := net.SplitHostPort(addr)
		if !slices.Contains(served, name) || err != nil {
			continue
		}
		if port, err := strconv.Atoi(text); err == nil && port > 0 {
			mine[at] = name + "=" + net.JoinHostPort(host, strconv.Itoa(port+i-1))
		}
	}
	return mine
}
