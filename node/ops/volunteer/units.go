package volunteer

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// none is the text of a limit that is not set.
const none = "none"

// unit is a suffix and its factor.
type unit struct {
	suffix string
	factor float64
}

var (
	sizeUnits = []unit{
		{"KiB", 1 << 10},
		{"MiB", 1 << 20},
		{"GiB", 1 << 30},
		{"TiB", 1 << 40},
		{"kB", 1e3},
		{"KB", 1e3},
		{"MB", 1e6},
		{"GB", 1e9},
		{"TB", 1e12},
		{"B", 1},
	}
	rateUnits = append([]unit{
		{"kbit", 1e3 / 8},
		{"Kbit", 1e3 / 8},
		{"Mbit", 1e6 / 8},
		{"Gbit", 1e9 / 8},
		{"bit", 1.0 / 8},
	}, sizeUnits...)
)

// maxAmount limits sizes and rates, so that their sums do not overflow int64.
const maxAmount = 1 << 60

// ParseSize parses a number of bytes: 500MiB, 2GB; none or 0 is 0.
func ParseSize(s string) (int64, error) {
	n, err := amount(s, sizeUnits)
	if err != nil {
		return 0, fmt.Errorf("must be a size such as 500MiB or 2GiB, or none%w", err)
	}
	return n, nil
}

// ParseRate parses a rate in bits or bytes per second: 2Mbit, 2Mbit/s, 250kB; none or 0 is 0. It
// returns bytes per second.
func ParseRate(s string) (int64, error) {
	n, err := amount(strings.TrimSuffix(s, "/s"), rateUnits)
	if err != nil {
		return 0, fmt.Errorf("must be a rate per second such as 2Mbit or 250kB, or none%w", err)
	}
	return n, nil
}

var errUnit = errors.New("")

func amount(s string, units []unit) (int64, error) {
	if s == none {
		return 0, nil
	}
	factor := 1.0
	for _, u := range units {
		if number, ok := strings.CutSuffix(s, u.suffix); ok {
			s, factor = number, u.factor
			break
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(v) || strings.ContainsAny(s, "xXpP_") {
		return 0, errUnit
	}
	if v *= factor; v < 0 || v > maxAmount {
		return 0, errors.New(": out of range")
	}
	return int64(math.Round(v)), nil
}

// SizeText formats a number of bytes without loss: in the largest unit that divides it.
func SizeText(n int64) string {
	return exact(n, []whole{{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"kB", 1e3}}, "B")
}

// RateText formats bytes per second without loss, for ParseRate.
func RateText(n int64) string {
	return exact(n, []whole{{"Gbit", 1e9 / 8}, {"Mbit", 1e6 / 8}, {"kB", 1e3}, {"KiB", 1 << 10}, {"kbit", 1e3 / 8}}, "B")
}

// whole is a unit that is a whole number of bytes.
type whole struct {
	suffix string
	bytes  int64
}

func exact(n int64, units []whole, rest string) string {
	if n == 0 {
		return none
	}
	for _, u := range units {
		if n%u.bytes == 0 {
			return fmt.Sprintf("%d%s", n/u.bytes, u.suffix)
		}
	}
	return fmt.Sprintf("%d%s", n, rest)
}
