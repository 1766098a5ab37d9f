package cluster

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// served are the flags of run that name an address to serve at, of which one machine has only one.
var served = []string{"--dashboard", "--metrics", "--pprof", "--optout-listen"}

// ofPeer are the flags for peer i: a port that is fixed is peer 1's, and counted up for the others.
// What is no address is left to run, which says so.
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
