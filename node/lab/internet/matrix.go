package internet

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/registry"
)

const (
	// maxMatrix is the maximum number of rows of a matrix: 4,096 take 128 MB, and twice that during
	// reading.
	maxMatrix = 4096
	// maxRTT is the largest accepted RTT in milliseconds: a quarter of an hour.
	maxRTT = 1e6
	// minRTT is the smallest RTT of different nodes: rounded matrices contain 0.
	minRTT = 10 * time.Microsecond
	// beside is the RTT of hosts at the same row of a matrix: the median RTT to the nearest node in
	// the PlanetLab measurements.
	beside = 200 * time.Microsecond
	// missing is the RTT of unmeasured pairs.
	missing = time.Duration(-1)
)

// matrix is an internet of measured RTTs.
type matrix struct {
	n         int
	data      []time.Duration
	addrs     []netip.Addr // nil if unknown
	countries []string     // nil if unknown
}

// Size implements hosts.
func (m *matrix) Size() int { return m.n }

// RTT implements hosts.
func (m *matrix) RTT(i, j int) time.Duration {
	i, j = i%m.n, j%m.n
	if i == j {
		return beside
	}
	return m.data[i*m.n+j]
}

// Addr implements hosts.
func (m *matrix) Addr(i int) netip.Addr {
	if m.addrs == nil {
		return netip.Addr{}
	}
	return m.addrs[i%m.n]
}

// Country implements hosts.
func (m *matrix) Country(i int) string {
	if m.countries == nil {
		return ""
	}
	return m.countries[i%m.n]
}

// Position implements hosts.
func (m *matrix) Position(int) (lat, lon float64, ok bool) { return 0, 0, false }

func (m *matrix) crawls(int) bool { return true }
func (m *matrix) serves(int) bool { return true }

func loadMatrix(path string, fill bool) (m *matrix, err error) {
	err = registry.Read(path, func(in *bufio.Reader) error {
		m, err = readMatrix(in, fill)
		return err
	})
	return m, err
}

func readMatrix(in io.Reader, fill bool) (*matrix, error) {
	rows := csv.NewReader(in)
	rows.ReuseRecord = true
	var ms [][]float64
	for {
		fields, err := rows.Read() // rejects rows of another length than the first
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(fields) > maxMatrix {
			return nil, fmt.Errorf("line 1: %d columns, expected at most %d", len(fields), maxMatrix)
		}
		if len(ms) == len(fields) {
			return nil, fmt.Errorf("not a square: more rows than the %d columns", len(fields))
		}
		row, err := milliseconds(rows, fields)
		if err != nil {
			return nil, err
		}
		ms = append(ms, row)
	}
	if len(ms) == 0 {
		return nil, errors.New("line 1: no round trips")
	}
	if len(ms) != len(ms[0]) {
		return nil, fmt.Errorf("not a square: %d rows of %d columns", len(ms), len(ms[0]))
	}
	return newMatrix(ms, fill)
}

// milliseconds parses a row; NaN means unmeasured.
func milliseconds(rows *csv.Reader, fields []string) ([]float64, error) {
	row := make([]float64, len(fields))
	for j, field := range fields {
		field = strings.TrimSpace(field)
		if field == "" {
			row[j] = math.NaN()
			continue
		}
		v, err := strconv.ParseFloat(field, 64)
		if err != nil || v < 0 || v > maxRTT {
			line, _ := rows.FieldPos(j)
			return nil, fmt.Errorf("line %d, column %d: %q is not a round trip in milliseconds%s", line, j+1, registry.Shorten(field), labelled(line, j, err))
		}
		row[j] = v
	}
	return row, nil
}

// labelled returns a hint on a non-number at a matrix's edge.
func labelled(line, column int, err error) string {
	if err != nil && (line == 1 || column == 0) {
		return "; a matrix has no header and no labels"
	}
	return ""
}

// newMatrix uses the mean of both directions, or the known one.
func newMatrix(ms [][]float64, fill bool) (*matrix, error) {
	m := &matrix{n: len(ms), data: make([]time.Duration, len(ms)*len(ms))}
	var known []time.Duration
	for i := range ms {
		for j := range i {
			sum, count := 0.0, 0.0
			for _, v := range [2]float64{ms[i][j], ms[j][i]} {
				if !math.IsNaN(v) {
					sum, count = sum+v, count+1
				}
			}
			rtt := missing
			if count > 0 {
				rtt = max(time.Duration(sum/count*float64(time.Millisecond)), minRTT)
				known = append(known, rtt)
			}
			m.data[i*m.n+j], m.data[j*m.n+i] = rtt, rtt
		}
	}
	if len(known) == 0 && m.n > 1 {
		return nil, errors.New("no RTT is known")
	}
	if fill && len(known) > 0 {
		slices.Sort(known)
		for k, v := range m.data {
			if v == missing {
				m.data[k] = known[len(known)/2]
			}
		}
	}
	return m, nil
}

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
		rows, err := readPrefixes(in, m.n)
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
	m.addrs, m.countries = make([]netip.Addr, m.n), make([]string, m.n)
	of := make([][]row, m.n)
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
