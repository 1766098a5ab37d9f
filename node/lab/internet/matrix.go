package internet

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"

	"github.com/apoidea/apoidea/crawl/placement/registry"
	"github.com/apoidea/apoidea/node/latency"
)

// matrix is an internet of measured RTTs.
type matrix struct {
	*latency.Matrix
	addrs     []netip.Addr // nil if unknown
	countries []string     // nil if unknown
}

// Addr implements hosts.
func (m *matrix) Addr(i int) netip.Addr {
	if m.addrs == nil {
		return netip.Addr{}
	}
	return m.addrs[i%m.Size()]
}

// Country implements hosts.
func (m *matrix) Country(i int) string {
	if m.countries == nil {
		return ""
	}
	return m.countries[i%m.Size()]
}

// Position implements hosts.
func (m *matrix) Position(int) (lat, lon float64, ok bool) { return 0, 0, false }

func (m *matrix) crawls(int) bool { return true }
func (m *matrix) serves(int) bool { return true }

// maxPrefixes is the maximum number of rows of a prefixes file.
const maxPrefixes = 1 << 20

// row is a row of a prefixes file.
type row struct {
	node    int
	prefix  netip.Prefix
	country string
}

// loadPrefixes sets the nodes' addresses.
func (m *matrix) loadPrefixes(path string, seed uint64) error {
	return registry.Read(path, func(in *bufio.Reader) error {
		rows, err := readPrefixes(in, m.Size())
		if err != nil {
			return err
		}
		m.settle(rows, seed)
		return nil
	})
}

// readPrefixes reads the prefixes of n nodes. Nodes are numbered from 0; from 1 if no node is 0 and
// one is n.
func readPrefixes(in io.Reader, n int) ([]row, error) {
	t, err := registry.NewTable(in, "node", "prefix")
	if err != nil {
		return nil, err
	}
	var rows []row
	zero, last := false, false
	for {
		if err := t.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if len(rows) == maxPrefixes {
			return nil, fmt.Errorf("more than %d rows", maxPrefixes)
		}
		var r row
		if r.node, err = strconv.Atoi(t.Field("node")); err != nil {
			return nil, t.Wrong("node", "is not a number: expected the row of the matrix, from 0")
		}
		zero, last = zero || r.node == 0, last || r.node == n
		if r.node < 0 || r.node > n || zero && last {
			return nil, t.Wrong("node", fmt.Sprintf("is not a row of a matrix of %d: expected 0 to %d", n, n-1))
		}
		if r.prefix, err = t.Prefix("prefix"); err != nil {
			return nil, err
		}
		if r.country, err = t.Country("country"); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil, errors.New("no rows")
	}
	if last {
		for i := range rows {
			rows[i].node--
		}
	}
	return rows, nil
}

// settle draws one prefix of each node, and an address in it, independent of the other nodes.
func (m *matrix) settle(rows []row, seed uint64) {
	m.addrs, m.countries = make([]netip.Addr, m.Size()), make([]string, m.Size())
	of := make([][]row, m.Size())
	for _, r := range rows {
		of[r.node] = append(of[r.node], r)
	}
	for i, rows := range of {
		if v4 := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !r.prefix.Addr().Is4() }); len(v4) > 0 {
			rows = v4
		}
		if len(rows) > 0 {
			rnd := rand.New(rand.NewPCG(seed, 0x61646472^uint64(i)<<32)) // not negative
			r := rows[rnd.IntN(len(rows))]
			m.addrs[i], m.countries[i] = within(rnd, r.prefix), r.country
		}
	}
}

// within draws an address of a prefix, neither its first nor its last if it has others.
func within(rnd *rand.Rand, p netip.Prefix) netip.Addr {
	bits := p.Addr().BitLen() - p.Bits()
	if bits == 0 {
		return p.Addr()
	}
	for {
		b := p.Addr().AsSlice()
		ones, zeros := true, true
		for k := range bits {
			at, bit := len(b)-1-k/8, byte(1)<<(k%8)
			if rnd.Uint64()&1 == 1 {
				b[at] |= bit
				zeros = false
			} else {
				ones = false
			}
		}
		if bits == 1 || !ones && !zeros {
			a, _ := netip.AddrFromSlice(b)
			return a
		}
	}
}

// register adds countries that the prefixes file lacks, from the smallest network around each
// address.
func (m *matrix) register(networks []registry.Network) {
	for i, a := range m.addrs {
		if !a.IsValid() || m.countries[i] != "" {
			continue
		}
		for bits := a.BitLen(); bits >= 0 && m.countries[i] == ""; bits-- {
			p, _ := a.Prefix(bits) // valid address and length
			if k, found := slices.BinarySearchFunc(networks, p, registry.Compare); found {
				m.countries[i] = networks[k].Country
			}
		}
	}
}
