package wire

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/adaptive"
	crawlwire "github.com/apoidea/apoidea/crawl/wire"
)

// maxTold is the largest RTT that fits, in microseconds.
const maxTold = 1<<32 - 1

// NewSamples returns the message of the first n samples that fit.
func NewSamples(list []adaptive.Sample) (m *Samples, n int) {
	m = &Samples{Version: SamplesVersion}
	index := make(map[string]uint32)
	for i := range list[:min(len(list), MaxSamples)] {
		l := &list[i]
		rtts := l.RTTs[:min(len(l.RTTs), MaxSampleRTTs)]
		if len(index)+len(rtts) > MaxSamplePeers {
			break
		}
		for _, r := range rtts {
			at, ok := index[r.Peer]
			if !ok {
				at = uint32(len(index)) // at most MaxSamplePeers
				index[r.Peer] = at
				m.Peer = append(m.Peer, []byte(r.Peer))
			}
			m.By = append(m.By, at)
			m.RttUs = append(m.RttUs, uint32(min(max(r.RTT.Microseconds(), 1), maxTold))) // bounded
		}
		whole := byte(0)
		if l.Whole {
			whole = 1
		}
		m.Host, m.Site, m.Whole = append(m.Host, []byte(l.Host)), append(m.Site, l.Site.AsSlice()), append(m.Whole, whole)
		m.Asked, m.Of = append(m.Asked, uint32(max(l.Asked, 0))), append(m.Of, uint32(max(l.Of, 0))) // not negative, and as many as peers
		m.WorthPct = append(m.WorthPct, uint32(100*min(max(l.Worth, 0), MaxSampleWorth)))
		m.Hops = append(m.Hops, uint32(min(max(l.Hops, 0), MaxSampleHops))) // bounded
		m.Measured = append(m.Measured, uint32(len(rtts)))                  // at most MaxSampleRTTs
		n++
	}
	return m, n
}

var errSamplesVersion = errors.New("unsupported version of samples")

// Validate checks version, limits and columns.
func (m *Samples) Validate() error {
	if m.GetVersion() != SamplesVersion {
		return fmt.Errorf("%w: %d, expected %d", errSamplesVersion, m.GetVersion(), SamplesVersion)
	}
	n := len(m.GetHost())
	if n > MaxSamples || len(m.GetPeer()) > MaxSamplePeers {
		return fmt.Errorf("samples: %d of %d peers exceed %d of %d", n, len(m.GetPeer()), MaxSamples, MaxSamplePeers)
	}
	if len(m.GetSite()) != n || len(m.GetWhole()) != n || len(m.GetAsked()) != n || len(m.GetOf()) != n || len(m.GetMeasured()) != n || len(m.GetBy()) != len(m.GetRttUs()) ||
		len(m.GetWorthPct()) != 0 && len(m.GetWorthPct()) != n || len(m.GetHops()) != 0 && len(m.GetHops()) != n {
		return fmt.Errorf("samples: %w", errColumns)
	}
	rtts := 0
	for i, k := range m.GetMeasured() {
		if k > MaxSampleRTTs {
			return fmt.Errorf("samples: %d RTTs of one host exceed %d", k, MaxSampleRTTs)
		}
		rtts += int(k)
		if size := len(m.GetSite()[i]); size != 0 && size != 4 && size != 16 {
			return fmt.Errorf("samples: address of %d bytes, expected 0, 4 or 16", size)
		}
		if m.GetWhole()[i] > 1 {
			return fmt.Errorf("samples: whole is %d, expected 0 or 1", m.GetWhole()[i])
		}
	}
	if rtts != len(m.GetBy()) {
		return fmt.Errorf("samples: %d RTTs, %d announced", len(m.GetBy()), rtts)
	}
	for _, by := range m.GetBy() {
		if int64(by) >= int64(len(m.GetPeer())) {
			return fmt.Errorf("samples: peer %d of %d", by, len(m.GetPeer()))
		}
	}
	return errors.Join(each("host of a sample", m.GetHost(), 1, crawlwire.MaxHost), each("peer of a sample", m.GetPeer(), 1, MaxPeerID))
}

// List returns the samples; the message must be valid.
func (m *Samples) List() []adaptive.Sample {
	list := make([]adaptive.Sample, len(m.GetHost()))
	at := 0
	for i := range list {
		addr, _ := netip.AddrFromSlice(m.GetSite()[i])
		l := adaptive.Sample{
			Host: string(m.GetHost()[i]), Site: addr.Unmap(), Whole: m.GetWhole()[i] == 1,
			Asked: int(min(m.GetAsked()[i], MaxSamplePeers)), Of: int(min(m.GetOf()[i], MaxSamplePeers)), Worth: 1,
		}
		if len(m.GetWorthPct()) > 0 {
			l.Worth = float64(min(m.GetWorthPct()[i], 100*MaxSampleWorth)) / 100
		}
		if len(m.GetHops()) > 0 {
			l.Hops = int(min(m.GetHops()[i], MaxSampleHops))
		}
		for range m.GetMeasured()[i] {
			l.RTTs = append(l.RTTs, adaptive.PeerRTT{
				Peer: string(m.GetPeer()[m.GetBy()[at]]), RTT: time.Duration(m.GetRttUs()[at]) * time.Microsecond,
			})
			at++
		}
		list[i] = l
	}
	return list
}
