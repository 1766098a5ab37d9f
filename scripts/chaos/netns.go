package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
)

// A partition needs networks that can be parted. Three namespaces: the halves of the ring live in
// two, the web and this program in the third, which routes between them. It stops routing, and each
// half still reaches the web but not the other; packets get lost without a word, as on a broken
// line.
const (
	webAddr  = "10.77.0.1" // of the audit and the name server
	maxHalf  = 50          // addresses of a half
	partTime = time.Minute
)

// siteAddr is the address of host h<n> of the web: each has one of its own, since peers spare
// addresses as they spare hosts.
func siteAddr(n int) net.IP { return net.IPv4(10, 77, 100+byte(n/250), 1+byte(n%250)).To4() }

func halfAddr(half, i int) string { return fmt.Sprintf("10.77.%d.%d", half, i) }

// runApart runs a scenario in a process of its own in the namespace in the middle.
func runApart(ctx context.Context, o options, s *scenario, seed uint64) bool {
	spaces := fmt.Sprintf("apoidea-%d", os.Getpid())
	remove := func() {
		for _, n := range spaceNames(spaces) {
			_ = exec.CommandContext(context.WithoutCancel(ctx), "ip", "netns", "del", n).Run() // gone already, or never made
		}
	}
	defer remove()
	if err := ip(ctx, "netns add "+spaceNames(spaces)[0]); err != nil {
		fmt.Printf("skip  %s, seed %d: network namespaces are not available here: %v\n", s.name, seed, err)
		return true
	}
	self, err := os.Executable()
	if err = errors.Join(err, makeSpaces(ctx, spaces)); err != nil {
		fmt.Printf("WRONG %s, seed %d: %v\n", s.name, seed, err)
		return false
	}
	args := []string{
		"netns", "exec", spaceNames(spaces)[0], self, "--spaces", spaces, "--work", o.work, "--seed", strconv.FormatUint(seed, 10),
		"--seeds", "1", "--port", strconv.Itoa(o.port), "--log-level", o.logLevel, "--quick=" + strconv.FormatBool(o.quick), s.name,
	}
	cmd := exec.CommandContext(ctx, "ip", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run() == nil
}

// spaceNames are the namespace in the middle and those of the halves.
func spaceNames(spaces string) [3]string {
	return [3]string{spaces + "-m", spaces + "-1", spaces + "-2"}
}

func ip(ctx context.Context, words string) error { return system(ctx, "ip "+words) }

func system(ctx context.Context, words string) error {
	list := strings.Fields(words)
	if out, err := exec.CommandContext(ctx, list[0], list[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", words, err, harness.LastLine(out))
	}
	return nil
}

// makeSpaces makes the halves and joins them to the middle, which is there.
func makeSpaces(ctx context.Context, spaces string) error {
	names := spaceNames(spaces)
	steps := []string{"netns add " + names[1], "netns add " + names[2], "-n " + names[0] + " addr add " + webAddr + "/32 dev lo"}
	for n := range longer.hosts {
		steps = append(steps, fmt.Sprintf("-n %s addr add %s/32 dev lo", names[0], siteAddr(n)))
	}
	for _, n := range names {
		steps = append(steps, "-n "+n+" link set lo up")
	}
	for half := 1; half <= 2; half++ {
		n, near, far := names[half], fmt.Sprint("half", half), "line"
		steps = append(steps,
			fmt.Sprintf("-n %s link add %s type veth peer name %s netns %s", names[0], near, far, n),
			fmt.Sprintf("-n %s addr add %s/24 dev %s", names[0], halfAddr(half, 254), near),
			fmt.Sprintf("-n %s link set %s up", names[0], near),
			fmt.Sprintf("-n %s link set %s up", n, far))
		for i := 1; i <= maxHalf; i++ {
			steps = append(steps, fmt.Sprintf("-n %s addr add %s/24 dev %s", n, halfAddr(half, i), far))
		}
		steps = append(steps, fmt.Sprintf("-n %s route add default via %s", n, halfAddr(half, 254)))
	}
	for _, step := range steps {
		if err := ip(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// route has the namespace in the middle, this process's own, pass packets on between the halves, or
// not.
func route(on bool) error {
	value := "0"
	if on {
		value = "1"
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte(value), 0o644)
}

// upApart makes one ring out of two halves.
func (t *trial) upApart(ctx context.Context) {
	harness.Check(route(true))
	harness.Check(t.names(ctx))
	spaces := spaceNames(t.spaces)
	entry := ""
	for half := 1; half <= 2; half++ {
		r := &ring{dir: filepath.Join(t.dir, fmt.Sprint("h", half)), space: spaces[half]}
		t.all = append(t.all, r)
		args := append(t.peerArgs(), "--listen", "/ip4/"+halfAddr(half, 1)+"/tcp/0", "--listen", "/ip4/"+halfAddr(half, 1)+"/udp/0/quic-v1",
			"--fetch-from", halfAddr(half, 0), "--dns-server", webAddr+":53")
		if entry != "" {
			args = append(args, "--bootstrap", entry)
		}
		harness.Check(r.up(ctx, t.sc.peers/2, args...))
		if half == 1 {
			s := harness.Must(r.status(ctx, 1))
			if len(s.Addrs) == 0 {
				harness.Check(errors.New("half 1 has no address to join by"))
			}
			entry = s.Addrs[0]
		}
	}
	t.ring, t.waiter = t.all[0], 1+t.rng.IntN(t.sc.peers/2)
	_ = harness.Must(t.ring.closed(ctx, t.waiter, t.sc.peers, settleTime))
}

// partition parts the halves for a while, and has the bounds hold from when the ring is whole again
// and the leases of before have ended.
func (t *trial) partition(ctx context.Context) {
	harness.Check(t.web.until(ctx, 0.1))
	before := t.web.look()
	harness.Check(route(false))
	err := harness.Sleep(ctx, partTime)
	harness.Check(errors.Join(route(true), err))
	during := t.web.requests()
	t.Say("halves from %d to %d of %d requests", before.Totals.Requests, during, t.web.whole())
	if before.Totals.Overlaps > 0 {
		t.Blame("overlaps %d before the partition", before.Totals.Overlaps)
	}
	took := harness.Must(t.ring.closed(ctx, t.waiter, t.members, time.Minute))
	t.Say("ring closed in %.1f s", took.Seconds())
	harness.Check(harness.Sleep(ctx, leaseTime))
	t.stillCrawling()
	t.heal()
}

// slowLine is what a line of a half lets through: less than its peers would use, so that packets
// wait for up to as long as is said, and those get lost for which there is no room.
const slowLine = "rate 2mbit burst 16kb latency 300ms"

// slowLines has both lines slow for a while.
func (t *trial) slowLines(ctx context.Context) {
	harness.Check(t.web.until(ctx, 0.1))
	before := t.web.requests()
	for half := 1; half <= 2; half++ { // what comes, and what goes
		for _, words := range []string{"tc qdisc add dev " + fmt.Sprint("half", half), "ip netns exec " + spaceNames(t.spaces)[half] + " tc qdisc add dev line"} {
			harness.Check(system(ctx, words+" root tbf "+slowLine))
		}
	}
	harness.Check(harness.Sleep(ctx, partTime))
	t.Say("slow from %d to %d of %d requests", before, t.web.requests(), t.web.whole())
	t.stillCrawling()
	_ = harness.Must(t.ring.closed(ctx, t.waiter, t.members, settleTime))
}

// heal notes what was up to now and has the web count anew.
func (t *trial) heal() {
	t.healed = &healed{asked: t.web.Asked(), total: t.web.look().Totals}
	t.web.ResetAudit()
}

// leaseTime is a lease's TTL and what it takes to hear of its end.
const leaseTime = 10 * time.Second

// names answers queries for the addresses of the web's hosts, h<n> of any domain, until ctx ends:
// the peers have no loopback in common with it.
func (t *trial) names(ctx context.Context) error {
	_, err := harness.ServeDNS(ctx, &t.group, webAddr+":53", harness.Addresses(func(name string) net.IP {
		label, _, _ := strings.Cut(name, ".")
		n, err := strconv.Atoi(strings.TrimPrefix(label, "h"))
		if err != nil {
			return nil
		}
		return siteAddr(n)
	}))
	return err
}
