package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/export/extsort"
	"github.com/apoidea/apoidea/node/ops/words"
)

// unfetchedStatus are the status codes of Heritrix' crawl.log for outcomes without an HTTP status.
var unfetchedStatus = map[link.Outcome]int{
	link.OutcomeDNS: -1, link.OutcomeConnect: -2, link.OutcomeTLS: -2, link.OutcomeHTTPError: -3, link.OutcomeTimeout: -4, link.OutcomeQuarantined: -8,
	link.OutcomeRobotsUnreachable: -61, link.OutcomeTrap: -4001, link.OutcomeOutOfScope: -5000, link.OutcomeBlockedAddress: -5001, link.OutcomeOptedOut: -5001,
	link.OutcomeOutOfBudget: -5003, link.OutcomeNone: -6000, link.OutcomeRobotsDenied: -9998,
}

// crawlLog makes the lines of Heritrix' crawl.log, sorted by the time of the end of the fetch; URLs
// that were never fetched come first.
type crawlLog struct {
	rows *extsort.Sorter
	line []byte
}

// add adds the line of a URL: the twelve columns, each without white space.
func (c *crawlLog) add(l *control.URLLine) error {
	text := func(s string) string { return cmp.Or(words.Legible(strings.Join(strings.Fields(s), "%20")), "-") }
	status := l.Status
	if code, ok := unfetchedStatus[link.OutcomeNamed(l.Outcome)]; ok && (status < 100 || status > 999) {
		status = code
	}
	ended, began, size := "-", "-", "-"
	if at, err := time.Parse(time.RFC3339, l.Fetched); err == nil {
		ended = at.UTC().Add(time.Duration(l.DurationMs) * time.Millisecond).Format("2006-01-02T15:04:05.000Z")
		began = fmt.Sprintf("%s+%d", strings.Replace(at.UTC().Format("20060102150405.000"), ".", "", 1), l.DurationMs)
	}
	if status > 0 {
		size = strconv.FormatUint(l.Size, 10)
	}
	seed := l.Seed
	if l.Via == "" && l.HopPath == "" && seed == "" && l.Depth == 0 && l.Hops == 0 {
		seed = l.URL
	}
	notes := []string{l.Outcome}
	if l.Tries > 0 {
		notes = append(notes, fmt.Sprintf("%dt", l.Tries+1))
	}
	if l.LinksLeftOut > 0 {
		notes = append(notes, fmt.Sprintf("linksLeftOut:%d", l.LinksLeftOut))
	}
	if l.Detail != "" {
		notes = append(notes, "detail:"+strings.ReplaceAll(l.Detail, ",", ";"))
	}
	c.line = fmt.Appendf(c.line[:0], "%s %d %s %s %s %s %s %s %s %s %s %s\n", ended, status, size, text(l.URL), text(l.HopPath), text(l.Via), text(l.MIME),
		text(l.Holder), began, text(l.Digest), text(seed), text(strings.Join(notes, ",")))
	return c.rows.Add(c.line)
}

func (c *crawlLog) assemble(ctx context.Context, e *exporter) error {
	return errors.Join(c.rows.Each(ctx, func(line []byte) error {
		_, err := e.work.out.Write(line)
		return err
	}), c.rows.Close())
}
