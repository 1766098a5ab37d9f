package latency

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
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
	// beside is the RTT of hosts at the same row of a matrix: the median RTT to the nearest node in
	// the PlanetLab measurements.
	beside = 200 * time.Microsecond
	// missing is the RTT of unmeasured pairs.
	missing = time.Duration(-1)
)

// MinRTT is the smallest RTT of different nodes: rounded matrices contain 0.
const MinRTT = 10 * time.Microsecond

// Matrix is a square matrix of measured round-trip times (RTTs), symmetric.
type Matrix struct {
	n    int
	data []time.Duration
}

// Size returns the number of rows.
func (m *Matrix) Size() int { return m.n }

// RTT returns the RTT between two rows, negative where it was not measured. Rows at or beyond Size
// are next to those at the same remainder.
func (m *Matrix) RTT(i, j int) time.Duration {
	i, j = i%m.n, j%m.n
	if i == j {
		return beside
	}
	return m.data[i*m.n+j]
}

// LoadMatrix reads a file, which may be compressed with gzip: see [ReadMatrix].
func LoadMatrix(path string, fill bool) (m *Matrix, err error) {
	err = registry.Read(path, func(in *bufio.Reader) error {
		m, err = ReadMatrix(in, fill)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("rtt matrix %s: %w", path, err)
	}
	return m, nil
}

// ReadMatrix reads RTTs in milliseconds: CSV without header or labels, NaN for unmeasured, at most
// 4,096 rows. The mean of both directions is used. With fill, missing values are the median of all.
// Errors name the line, the column and the value.
func ReadMatrix(in io.Reader, fill bool) (*Matrix, error) {
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
func newMatrix(ms [][]float64, fill bool) (*Matrix, error) {
	m := &Matrix{n: len(ms), data: make([]time.Duration, len(ms)*len(ms))}
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
				rtt = max(time.Duration(sum/count*float64(time.Millisecond)), MinRTT)
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
