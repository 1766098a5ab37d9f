package webgen

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/registry"
)

// Changes is the history of pages that change: those of host h are its pages from 1. The first time
// of a page is the start of its window, the others are changes, in Unix seconds and in ascending
// order.
type Changes [][][]int64

// The limits of a file of changes.
const (
	maxChangeRows  = 1 << 20
	maxChangePages = 1 << 14
	maxUnix        = 1 << 33
)

// ReadChanges reads a CSV file with the columns page, host and unix_s, which may be compressed by
// gzip. Hosts and their pages are numbered by their first rows.
func ReadChanges(path string) (c Changes, err error) {
	if err = registry.Read(path, func(in *bufio.Reader) error { return c.read(in) }); err != nil {
		return nil, fmt.Errorf("changes %s: %w", path, err)
	}
	return c, nil
}

func (c *Changes) read(in io.Reader) error {
	table, err := registry.NewTable(in, "page", "host", "unix_s")
	if err != nil {
		return err
	}
	hosts, pages := make(map[string]int), make(map[[2]string]int)
	for rows := 0; ; rows++ {
		if err := table.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		name, host := strings.Clone(table.Field("page")), strings.Clone(table.Field("host"))
		at, err := strconv.ParseInt(table.Field("unix_s"), 10, 64)
		h, known := hosts[host]
		n, again := pages[[2]string{host, name}]
		switch {
		case err != nil || at < 0 || at >= maxUnix:
			return table.Wrong("unix_s", "is not a time in Unix seconds")
		case name == "" || host == "":
			return table.Wrong("page", "needs a page and a host")
		case rows == maxChangeRows:
			return table.Wrong("page", fmt.Sprintf("is beyond %d rows", maxChangeRows))
		case !again && len(pages) == maxChangePages:
			return table.Wrong("page", fmt.Sprintf("is beyond %d pages", maxChangePages))
		}
		if !known {
			h = len(*c)
			hosts[host], *c = h, append(*c, nil)
		}
		page := &(*c)[h]
		if !again {
			n = len(*page)
			pages[[2]string{host, name}], *page = n, append(*page, nil)
		}
		times := &(*page)[n]
		if again && at < (*times)[len(*times)-1] {
			return table.Wrong("unix_s", "is before the last row of the page")
		}
		*times = append(*times, at)
	}
	if len(*c) == 0 {
		return errors.New("no pages")
	}
	return nil
}

// version returns the number of changes of a page until a time, and the time of the last one, or of
// the start of the window.
func (c Changes) version(host, number int, unix float64) (n int, last int64) {
	times := c[host][number-1]
	n = max(sort.Search(len(times), func(i int) bool { return float64(times[i]) > unix })-1, 0)
	return n, times[n]
}

// Served is a line of the log of requests.
type Served struct {
	At          time.Time `json:"at"`   // at which the request began
	From        string    `json:"from"` // IP address
	Host        string    `json:"host"` // with the port
	Path        string    `json:"path"` // with the query
	Method      string    `json:"method"`
	Status      int       `json:"status"`
	Conditional bool      `json:"conditional"`
	UnixS       float64   `json:"unix_s,omitempty"`  // time in the file of changes
	Version     int       `json:"version,omitempty"` // number of changes of the page
	Habit       string    `json:"habit,omitempty"`   // honest, lies, unasked or nonce
}

// Habit draws how a page that changes treats validators: those of 10 % (lies) stay the same, 5 %
// (unasked) answer some requests without a condition with 304, 20 % (nonce) have a nonce in their
// markup and a new ETag in each response, the others are honest.
func (w *Web) Habit(host, number int) string {
	switch u := unit(w.draw(saltHabit, host, number)); {
	case number == 0 || u >= 0.35:
		return "honest"
	case u < 0.10:
		return "lies"
	case u < 0.15:
		return "unasked"
	default:
		return "nonce"
	}
}

// unaskedShare is the share of requests without a condition that a page answers with 304.
const unaskedShare = 0.25

// respondChanging answers for a page of the file of changes, or the page 0 of a host, which links
// them and does not change.
func (w *Web) respondChanging(buf []byte, r request, earlier int) response {
	resp := response{status: http.StatusOK, contentType: typeHTML, wait: w.cfg.Latency, habit: w.Habit(r.host, r.number)}
	resp.unix = float64(w.start) + r.at.Sub(w.begun).Seconds()*w.cfg.Speed
	changed := w.begun
	if r.number > 0 {
		var last int64
		resp.version, last = w.cfg.Changes.version(r.host, r.number, resp.unix)
		changed = changed.Add(time.Duration(max(float64(last-w.start)/w.cfg.Speed, 0) * float64(time.Second)))
	}
	tag := fmt.Sprintf(`"%d-%d-%d"`, r.host, r.number, resp.version)
	once := mix(w.draw(saltNonce, r.host, r.number) + uint64(earlier)) //nolint:gosec // a count
	switch resp.habit {
	case "lies":
		tag, changed = fmt.Sprintf(`"%d-%d"`, r.host, r.number), w.begun
	case "nonce":
		tag = fmt.Sprintf(`"%x"`, once)
	}
	resp.header = []string{"ETag", tag}
	if resp.habit != "nonce" {
		resp.header = append(resp.header, "Last-Modified", changed.UTC().Format(http.TimeFormat))
	}
	same := !r.since.IsZero() && resp.habit != "nonce" && !changed.Truncate(time.Second).After(r.since)
	if r.etag != "" {
		same = r.etag == tag
	}
	if same || !r.conditional() && earlier > 0 && resp.habit == "unasked" && unit(once) < unaskedShare {
		resp.status, resp.contentType, resp.body = http.StatusNotModified, "", buf
		return resp
	}
	b := fmt.Appendf(buf, "<!DOCTYPE html>\n<html lang=\"en\">\n<title>Page %d of host %d</title>\n", r.number, r.host)
	if resp.habit == "nonce" {
		b = fmt.Appendf(b, "<form><input type=\"hidden\" name=\"token\" value=\"%x\"></form>\n", once)
	}
	d := w.draw(saltText, r.host, r.number)
	b = w.words.appendText(append(b, "<p>"...), d, w.cfg.PageBytes/2+scale(mix(d), w.cfg.PageBytes+1))
	b = fmt.Appendf(b, "</p>\n<p>Edition %d: ", resp.version)
	b = append(w.words.appendText(b, mix(d+uint64(resp.version)), 80), "</p>\n<ul>\n"...) //nolint:gosec // a count
	for n := range w.pages(r.host) {
		if r.number > 0 && n > 0 {
			break
		}
		b = append(appendPath(append(b, "<li><a href=\""...), n), "\">page "...)
		b = append(strconv.AppendInt(b, int64(n), 10), "</a>\n"...)
	}
	resp.body = append(b, "</ul>\n</html>\n"...)
	return resp
}

func (r *request) conditional() bool { return r.etag != "" || !r.since.IsZero() }

// logged adds a request to the log, if there is one.
func (w *Web) logged(req *http.Request, r *request, resp *response) {
	if w.cfg.Log == nil {
		return
	}
	line, err := json.Marshal(&Served{
		At: r.at, From: sourceOf(req.RemoteAddr), Host: req.Host, Path: r.url, Method: req.Method, Status: resp.status, Conditional: r.conditional(),
		UnixS: resp.unix, Version: resp.version, Habit: resp.habit,
	})
	if err == nil {
		w.logging.Lock()
		defer w.logging.Unlock()
		_, _ = w.cfg.Log.Write(append(line, '\n')) // the web is served without it
	}
}
