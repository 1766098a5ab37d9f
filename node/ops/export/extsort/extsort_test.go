package extsort

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestSorts: lines come back in order, equal ones too, whether they fit in memory, take some files,
// or so many that files are merged; nothing is left.
func TestSorts(t *testing.T) {
	for _, most := range []int{partBytes, 4 << 10, 256} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			dir := t.TempDir()
			s := New(dir)
			s.most = most
			rnd := rand.New(rand.NewPCG(1, uint64(most)))
			var want []string
			for range 3000 {
				line := strings.Repeat(fmt.Sprint(rnd.IntN(1000)), rnd.IntN(4))
				want = append(want, line)
				if err := s.Add([]byte(line)); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(want)
			for range 2 {
				var got []string
				if err := s.Each(t.Context(), func(line []byte) error { got = append(got, string(line)); return nil }); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%d lines, want %d in order", len(got), len(want))
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}

func TestEnds(t *testing.T) {
	s := New(t.TempDir())
	if err := s.Add(make([]byte, MaxLine+1)); !errors.Is(err, ErrLongLine) {
		t.Errorf("a long line: %v", err)
	}
	for range 5000 {
		if err := s.Add([]byte("a line")); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Each(ctx, func([]byte) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	mine := errors.New("mine")
	if err := s.Each(t.Context(), func([]byte) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("the function's error: %v", err)
	}
}
