package ipmicra

import (
	"math/bits"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/aging"
	"github.com/apoidea/apoidea/crawl/placement"
)

// Calibration (papers 2.4): slowFactor above what such downloads took before, slowRuns downloads in
// a row, and the subnet is delegated anew.
const (
	slowFactor = 2
	slowRuns   = 3
	// slowFloor is what growth below is noise, as of a loaded machine, and not worth fresh probes.
	slowFloor = 50 * time.Millisecond
	// paceShare is what a new download counts for in the mean of its class: about the last eight.
	paceShare = 0.125
	// sizeClasses of powers of four from 4 KiB up: a page of one class takes at most one more round
	// trip than another of it.
	sizeClasses = 8
)

// Calibration watches how long downloads from subnets take. Not safe for concurrent use.
type Calibration struct {
	paces *aging.Map[netip.Prefix, *pace]
}

// NewCalibration returns one that has seen nothing.
func NewCalibration() *Calibration {
	return &Calibration{aging.New[netip.Prefix, *pace](maxChoices, nil)}
}

// pace is how long downloads from a subnet take.
type pace struct {
	worker string
	mean   [sizeClasses]time.Duration // of downloads that were not slow; zero: none yet
	slow   int                        // in a row
}

func sizeClass(bytes int64) int {
	return max(0, min((bits.Len64(uint64(max(bytes, 0)))-11)/2, sizeClasses-1)) // not negative
}

// Slow counts in a download by the worker of a subnet, and says whether the subnet is to be
// delegated anew. Downloads are compared with earlier ones of about the same size. Failures say
// nothing about the way, and a worker's first download of a size is the measure of those that
// follow.
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

// Observe implements [placement.Observer]: downloads by the worker of their subnet calibrate it.
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

// add counts a download in, and says whether it is the one too many. Slow ones do not raise the
// mean that they are held against.
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
