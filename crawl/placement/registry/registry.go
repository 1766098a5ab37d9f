// Package registry reads registry data of address ranges: networks, their nesting, their
// organizations and countries. Files may be compressed with gzip, whatever their name; their size
// is limited.
//
// The two formats are CSV whose header names the columns prefix and, optionally, org and country;
// and a registry's delegated-extended statistics file, detected by its version line, in which the
// opaque id is the organization. [Read] and [Table] read other files of addresses in the same way.
package registry

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxNetworks bounds a hierarchy: all registries together have about 5 million networks, routing
	// tables 1 million. A network takes 64 bytes and its name.
	maxNetworks = 4 << 20
	// maxOrg bounds the name of an organization in bytes; longer ones are truncated.
	maxOrg = 200
	// maxRecord bounds a line of a statistics file: its fields are short.
	maxRecord = 1 << 12
)

// Network is a range of addresses in a registry.
type Network struct {
	Prefix netip.Prefix // range of addresses
	// Org is its organization, by name or by a registry's opaque id; "" if unknown.
	Org string
	// Country is the ISO 3166 code under which it is registered, "" if unknown.
	Country string
}

// Load reads registry data of either format: networks in the order of [Order], each with the
// organization and the country of the nearest enclosing network where it has none. Errors name the
// file, the line, the column and the value.
func Load(path string) ([]Network, error) {
	networks, err := load(path)
	if err != nil {
		return nil, fmt.Errorf("hierarchy %s: %w", path, err)
	}
	return networks, nil
}

func load(path string) (networks []Network, err error) {
	err = Read(path, func(in *bufio.Reader) error {
		networks, err = decode(in)
		return err
	})
	return networks, err
}

// decode reads registry data of either format.
func decode(in *bufio.Reader) (networks []Network, err error) {
	start, _ := in.Peek(256) // a short file is peeked whole
	if isDelegated(start) {
		networks, err = readDelegated(in)
	} else {
		networks, err = readNetworks(in)
	}
	if err != nil {
		return nil, err
	}
	if len(networks) == 0 {
		return nil, errors.New("no networks")
	}
	networks = Order(networks)
	inherit(networks)
	return networks, nil
}

// names interns names: a field of a CSV file shares its memory with the whole line.
type names map[string]string

func (n names) of(s string) string {
	if len(s) > maxOrg {
		s = strings.ToValidUTF8(s[:maxOrg], "")
	}
	if known, ok := n[s]; ok {
		return known
	}
	s = strings.Clone(s)
	n[s] = s
	return s
}

// readNetworks reads a CSV file with a header.
func readNetworks(in io.Reader) ([]Network, error) {
	t, err := NewTable(in, "prefix")
	if err != nil {
		return nil, err
	}
	var out []Network
	known := make(names)
	for {
		if err := t.Next(); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		if len(out) == maxNetworks {
			return nil, fmt.Errorf("more than %d networks", maxNetworks)
		}
		p, err := t.Prefix("prefix")
		if err != nil {
			return nil, err
		}
		country, err := t.Country("country")
		if err != nil {
			return nil, err
		}
		out = append(out, Network{p, known.of(t.Field("org")), known.of(country)})
	}
}

// Order sorts networks by address, a network before those inside it, and merges those of the same
// range: the first one with an organization counts.
func Order(networks []Network) []Network {
	slices.SortStableFunc(networks, func(a, b Network) int { return Compare(a, b.Prefix) })
	out := networks[:0]
	for _, n := range networks {
		if len(out) == 0 || out[len(out)-1].Prefix != n.Prefix {
			out = append(out, n)
			continue
		}
		last := &out[len(out)-1]
		last.Org = cmp.Or(last.Org, n.Org)
		last.Country = cmp.Or(last.Country, n.Country)
	}
	return out
}

// Compare compares the position of a network with that of a prefix in a hierarchy.
func Compare(n Network, p netip.Prefix) int {
	return cmp.Or(n.Prefix.Addr().Compare(p.Addr()), cmp.Compare(n.Prefix.Bits(), p.Bits()))
}

// inherit sets missing organizations to that of the nearest enclosing network that has one, and
// likewise countries.
func inherit(networks []Network) {
	var around []*Network
	for i := range networks {
		n := &networks[i]
		for len(around) > 0 && !around[len(around)-1].Prefix.Contains(n.Prefix.Addr()) {
			around = around[:len(around)-1]
		}
		if len(around) > 0 {
			parent := around[len(around)-1]
			n.Org = cmp.Or(n.Org, parent.Org)
			n.Country = cmp.Or(n.Country, parent.Country)
		}
		around = append(around, n)
	}
}

// isDelegated detects a statistics file by its version line, which may follow comments:
// version|registry|serial|records|start|end|offset.
func isDelegated(start []byte) bool {
	for line := range bytes.Lines(start) {
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		f := bytes.Split(line, []byte("|"))
		_, err := strconv.ParseFloat(string(f[0]), 32)
		return err == nil && len(f) >= 6
	}
	return false
}

// readDelegated reads the statistics file of a registry:
// registry|country|type|start|value|date|status|opaque-id. Ranges of IPv4 are counts of addresses,
// which need not make a single network; those of IPv6 are prefix lengths. It skips ranges that are
// not allocated.
func readDelegated(in io.Reader) ([]Network, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, maxRecord), maxRecord)
	var out []Network
	known := make(names)
	version := false
	for line := 1; lines.Scan(); line++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		if !version { // detected before
			version = true
			continue
		}
		f := strings.Split(text, "|")
		if len(f) == 6 && f[5] == "summary" || len(f) >= 7 && f[2] == "asn" {
			continue
		}
		if len(f) < 7 {
			return nil, fmt.Errorf("line %d: %q has %d fields, want at least 7", line, Shorten(text), len(f))
		}
		if f[6] != "allocated" && f[6] != "assigned" {
			continue
		}
		prefixes, err := delegated(f)
		if err != nil {
			return nil, fmt.Errorf("line %d, %w", line, err)
		}
		if len(out)+len(prefixes) > maxNetworks {
			return nil, fmt.Errorf("more than %d networks", maxNetworks)
		}
		n := Network{}
		if isCountry(f[1]) && f[1] != "ZZ" {
			n.Country = known.of(f[1])
		}
		if len(f) > 7 && f[7] != "" {
			n.Org = known.of(f[0] + ":" + f[7])
		}
		for _, n.Prefix = range prefixes {
			out = append(out, n)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, fmt.Errorf("line exceeds %d bytes", maxRecord)
	}
	return out, lines.Err()
}

// delegated returns the networks of a record.
func delegated(f []string) ([]netip.Prefix, error) {
	start, err := netip.ParseAddr(f[3])
	if err != nil || f[2] == "ipv4" != start.Is4() || start.Zone() != "" {
		return nil, fmt.Errorf("column start: %q is not an address of %s", Shorten(f[3]), Shorten(f[2]))
	}
	value, err := strconv.ParseUint(f[4], 10, 32)
	switch {
	case f[2] == "ipv4" && err == nil && value > 0:
		if all := split(start, value); all != nil {
			return all, nil
		}
	case f[2] == "ipv6" && err == nil:
		if p, err := start.Prefix(int(value)); err == nil {
			return []netip.Prefix{p}, nil
		}
	case f[2] != "ipv4" && f[2] != "ipv6":
		return nil, fmt.Errorf("column type: %q is neither asn, ipv4 nor ipv6", Shorten(f[2]))
	}
	return nil, fmt.Errorf("column value: %q does not fit %s at %s", Shorten(f[4]), f[2], f[3])
}

// split returns networks of count addresses of IPv4; nil if there are not so many.
func split(start netip.Addr, count uint64) (out []netip.Prefix) {
	b := start.As4()
	at := uint64(b[0])<<24 | uint64(b[1])<<16 | uint64(b[2])<<8 | uint64(b[3])
	if at+count > 1<<32 {
		return nil
	}
	for count > 0 {
		size := bits.Len64(count) - 1
		if at > 0 {
			size = min(size, bits.TrailingZeros64(at))
		}
		a := netip.AddrFrom4([4]byte{byte(at >> 24), byte(at >> 16), byte(at >> 8), byte(at)})
		out = append(out, netip.PrefixFrom(a, 32-size))
		at, count = at+1<<size, count-1<<size
	}
	return out
}
