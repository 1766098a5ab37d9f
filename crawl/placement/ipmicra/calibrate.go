package ipmicra

import (
	"math/bits"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/aging"
	"github.com/apoidea/apoidea/crawl/placement"
)

// Calibration (papers 2.4): after slowRuns consecutive downloads that take slowFactor times the
// usual duration, the subnet is delegated again.
const (
	slowFactor = 2
	slowRuns   = 3
	// slowFloor is the increase below which a change is noise, as of a loaded machine.
	slowFloor = 50 * time.Millisecond
	// paceShare is the weight of a new download in the mean of its class: about the last eight.
	paceShare = 0.125
	// sizeClasses of powers of four from 4 KiB up: pages of one class differ by at most one round
	// trip.
	sizeClasses = 8
)

// Calibration tracks the duration of downloads from subnets. Not safe for concurrent use.
type Calibration struct {
	paces *aging.Map[netip.Prefix, *pace]
}

// NewCalibration returns a Calibration without data.
func NewCalibration() *Calibration {
	return &Calibration{aging.New[netip.Prefix, *pace](maxChoices, nil)}
}

// pace is the duration of downloads from a subnet.
type pace struct {
	worker string
	mean   [sizeClasses]time.Duration // of downloads that were not slow; zero: none
	slow   int                        // consecutive slow downloads
}

func sizeClass(bytes int64) int {
	return max(0, min((bits.Len64(uint64(max(bytes, 0)))-11)/2, sizeClasses-1)) // not negative
}

// Slow adds a download by the worker of a subnet, and reports whether the subnet must be delegated
// again. Downloads are compared with earlier ones of about the same size. Failures are ignored, as
// they do not depend on the path, and a worker's first download of a size is the reference for
// later ones.
func (c *Calibration) Slow(subnet netip.Prefix, f *placement.Fetch) bool {
	if f.Failed || f.Took <= 0 {
		return false
	}
	p, ok := c.paces.Get(subnet)
	if !ok || p.worker != f.Worker {
		p = &pace{worker: f.Worker}
		c.paces.Set(subnet, p)
	}
	if !p.add(sizeClass(f.Bytes), f.Took) {
		return false
	}
	c.paces.Remove(subnet)
	return true
}

// Observe implements [placement.Observer]: it calibrates subnets by the downloads of their workers.
func (s *Strategy) Observe(f *placement.Fetch) {
	at, ok := s.machine.Tree.Locate(f.Site)
	if !ok {
		return
	}
	record := s.memory.subnets[at.Subnet]
	if record != nil && record.Worker != "" && record.Worker == f.Worker && s.calibration.Slow(at.Subnet, f) {
		s.anew(at.Subnet, f.Worker, f.At)
	}
}

// add adds a download, and reports whether the limit of slow ones is reached. Slow ones do not
// raise the mean that they are compared with.
func (p *pace) add(class int, took time.Duration) bool {
	mean := &p.mean[class]
	switch {
	case *mean == 0:
		*mean = took
	case took > slowFactor*(*mean) && took-*mean > slowFloor:
		p.slow++
		return p.slow >= slowRuns
	default:
		*mean += time.Duration(paceShare * float64(took-*mean))
	}
	p.slow = 0
	return false
}
