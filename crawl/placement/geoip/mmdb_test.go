package geoip

import (
	"encoding/binary"
	"maps"
	"math"
	"net/netip"
	"slices"
	"testing"
)

// database writes a MaxMind DB of IPv4 with a record for each network (no network within another),
// as the format's public description says.
func database(tb testing.TB, networks map[string]any) []byte {
	tb.Helper()
	const nothing, leaf = -1, 1 << 20 // of a record: else the number of a node, or leaf plus the offset of the data
	nodes := [][2]int{{nothing, nothing}}
	var data []byte
	for _, text := range slices.Sorted(maps.Keys(networks)) {
		p := netip.MustParsePrefix(text)
		offset := len(data)
		data = encode(tb, data, networks[text])
		ip := binary.BigEndian.Uint32(p.Addr().AsSlice())
		at := 0
		for bit := range p.Bits() {
			side := ip >> (31 - bit) & 1
			switch {
			case bit == p.Bits()-1:
				nodes[at][side] = leaf + offset
			case nodes[at][side] == nothing:
				nodes = append(nodes, [2]int{nothing, nothing})
				nodes[at][side] = len(nodes) - 1
				fallthrough
			default:
				at = nodes[at][side]
			}
		}
	}
	var out []byte
	for _, n := range nodes {
		for _, v := range n {
			switch {
			case v == nothing:
				v = len(nodes)
			case v >= leaf:
				v = v - leaf + len(nodes) + 16
			}
			out = append(out, byte(v>>16), byte(v>>8), byte(v))
		}
	}
	out = append(append(out, make([]byte, 16)...), data...)
	out = append(out, "\xab\xcd\xefMaxMind.com"...)
	return encode(tb, out, map[string]any{
		"node_count": len(nodes), "record_size": 24, "ip_version": 4, "database_type": "test", "binary_format_major_version": 2, "binary_format_minor_version": 0,
		"build_epoch": 1, "languages": []string{}, "description": map[string]any{"en": "a test"},
	})
}

// encode appends a value of the data section: maps of short texts, short texts, doubles, small
// numbers, empty lists.
func encode(tb testing.TB, out []byte, v any) []byte {
	tb.Helper()
	switch v := v.(type) {
	case map[string]any:
		out = append(out, 7<<5|byte(len(v)))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out = encode(tb, encode(tb, out, k), v[k])
		}
	case string:
		out = append(append(out, 2<<5|byte(len(v))), v...)
	case float64:
		out = binary.BigEndian.AppendUint64(append(out, 3<<5|8), math.Float64bits(v))
	case int:
		out = binary.BigEndian.AppendUint32(append(out, 6<<5|4), uint32(v)) // small in these tests
	case []string:
		out = append(out, 0, 11-7)
	default:
		tb.Fatalf("cannot encode %T", v)
	}
	return out
}
