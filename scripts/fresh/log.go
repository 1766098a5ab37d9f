package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/scripts/harness"
)

const daySeconds = 86400

// page is a page with its changes and its visits, in days since the start of the file.
type page struct {
	url, host, habit string
	changes          []float64 // without the start of the window
	visits           []visit   // GET requests, in order
}

// visit is a request of a page.
type visit struct {
	webgen.Served
	day  float64
	held int // version of the copy before the visit; -1: none
}

// read reads the log and returns the requested pages that change, and the pages 0 of hosts, which
// do not.
func (t *trial) read() (pages []*page) {
	start := int64(1) << 62
	for _, h := range t.changes {
		for _, times := range h {
			start = min(start, times[0])
		}
	}
	byURL := make(map[string]*page)
	f := harness.Must(os.Open(t.log))
	defer f.Close()
	for dec := json.NewDecoder(f); ; {
		var s webgen.Served
		err := dec.Decode(&s)
		if errors.Is(err, io.EOF) {
			break
		}
		harness.Check(err)
		if s.Habit == "" || s.Method != http.MethodGet {
			continue // robots.txt, unknown pages and probes
		}
		url := "http://" + s.Host + s.Path
		p := byURL[url]
		if p == nil {
			p = &page{url: url, host: s.Host, habit: s.Habit}
			byURL[url] = p
			pages = append(pages, p)
			var host, section, number int
			_, _ = fmt.Sscanf(strings.Replace(s.Host, ".", " ", 1), "h%d", &host)
			if n, _ := fmt.Sscanf(s.Path, "/s%d/%d.html", &section, &number); n == 2 {
				for _, at := range t.changes[host][number-1][1:] {
					p.changes = append(p.changes, float64(at-start)/daySeconds)
				}
			}
		}
		p.visits = append(p.visits, visit{Served: s, day: (s.UnixS - float64(start)) / daySeconds})
	}
	for _, p := range pages {
		slices.SortFunc(p.visits, func(a, b visit) int { return cmp.Compare(a.day, b.day) })
		held := -1
		for i := range p.visits {
			if p.visits[i].held = held; p.visits[i].Status == http.StatusOK {
				held = p.visits[i].Version
			}
		}
	}
	return pages
}

// version returns the number of changes until a day.
func (p *page) version(day float64) int {
	n, _ := slices.BinarySearchFunc(p.changes, day, func(at, day float64) int { return cmp.Or(cmp.Compare(at, day), -1) })
	return n
}

// rate returns the changes between two days.
func (p *page) rate(from, to float64) int { return p.version(to) - p.version(from) }

// first returns the day of the first copy.
func (p *page) first() float64 {
	for i := range p.visits {
		if p.visits[i].Status == http.StatusOK {
			return p.visits[i].day
		}
	}
	return p.visits[len(p.visits)-1].day
}

// current returns the days between two days in which a copy fetched at the days of the list was
// current.
func (p *page) current(fetched []float64, from, to float64) (sum float64) {
	for i, at := range fetched {
		until := to
		if i+1 < len(fetched) {
			until = min(to, fetched[i+1])
		}
		if n := p.version(at); n < len(p.changes) {
			until = min(until, p.changes[n])
		}
		sum += max(until-max(at, from), 0)
	}
	return sum
}

// fetches returns the days at which a visit showed the current page: 200, or 304 to a condition.
func (p *page) fetches() (days []float64) {
	for i := range p.visits {
		if v := &p.visits[i]; v.Status == http.StatusOK || v.Conditional && v.Version == v.held {
			days = append(days, v.day)
		}
	}
	return days
}

// uniform returns days from the first copy on, at a phase of an interval.
func (p *page) uniform(every, phase, to float64) []float64 {
	days := []float64{p.first()}
	for at := days[0] + phase*every; at < to; at += every {
		days = append(days, at)
	}
	return days
}
