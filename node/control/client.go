package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// SocketName is the socket of the API in a data directory.
const SocketName = "apoidea.sock"

// maxLine limits one document of a stream or response, for the reader.
const maxLine = 64 << 20

// Client is a client of a running peer. It implements Backend.
type Client struct {
	addr  string
	token func() (string, error) // token for an API on TCP; nil: none
	http  *http.Client
}

var _ Backend = (*Client)(nil)

// NewClient returns a client for the API at addr (see Listen); it connects on first use.
func NewClient(addr string) *Client {
	network, target := splitAddr(addr)
	return &Client{addr: target, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, target)
		},
		DisableCompression: true,
	}}}
}

// Bearing makes the client send the result of token with each request, unless it is empty.
func (c *Client) Bearing(token func() (string, error)) *Client {
	c.token = token
	return c
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) do(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	var rd io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("api request: %w", err)
		}
		rd = bytes.NewReader(raw)
	}
	var began atomic.Bool // to respond
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { began.Store(true) }})
	req, err := http.NewRequestWithContext(traced, method, "http://"+clientHost+path+"?"+query.Encode(), rd)
	if err != nil {
		return nil, fmt.Errorf("api request: %w", err)
	}
	if c.token != nil {
		token, err := c.token()
		if err != nil {
			return nil, err
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
	}
	res, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, c.unreachable(err, began.Load())
	}
	if res.StatusCode >= 300 {
		defer res.Body.Close()
		e := new(Error)
		if err := json.NewDecoder(io.LimitReader(res.Body, maxLine)).Decode(e); err != nil || e.Text == "" {
			e = c.foreign(res.Status)
		}
		return nil, e
	}
	return res, nil
}

// unreachable distinguishes a peer that does not run, one that stopped during the request, and an
// invalid response. It relies on whether a byte was received, because the transport has several,
// partly unexported, errors for a closed connection.
func (c *Client) unreachable(err error, began bool) error {
	op, ok := errors.AsType[*net.OpError](err)
	switch {
	case ok && op.Op == "dial" && errors.Is(err, fs.ErrPermission):
		return &Error{Kind: KindNoPeer, Text: fmt.Sprintf("the peer at %s belongs to another user: %v", c.addr, fs.ErrPermission)}
	case ok && op.Op == "dial":
		dir, name := filepath.Split(c.addr)
		text := fmt.Sprintf("no peer is running at %s (start one with `apoidea run`, or check %s)", c.addr, map[bool]string{true: "--data-dir", false: "--api"}[name == SocketName])
		if _, err := os.Stat(dir); err != nil && name == SocketName {
			text = "no data directory " + filepath.Clean(dir) + ": start a peer with `apoidea run`, or set --data-dir"
		}
		return &Error{Kind: KindNoPeer, Text: text}
	case ok, !began, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return wentAway()
	default:
		return c.foreign("invalid response")
	}
}

// foreign returns an error for a response that is not the API's, with the reason.
func (c *Client) foreign(odd string) *Error {
	return &Error{Kind: KindFailed, Text: fmt.Sprintf("%s is not the API of a peer of this release: set --api or --data-dir of a peer (%s)", c.addr, odd)}
}

func wentAway() error {
	return &Error{Kind: KindNoPeer, Text: "the peer stopped during its response"}
}

// call requests one document.
func call[T any](ctx context.Context, c *Client, method, path string, query url.Values, body any) (T, error) {
	var v T
	res, err := c.do(ctx, method, path, query, body)
	if err != nil {
		return v, err
	}
	defer res.Body.Close()
	if err = json.NewDecoder(io.LimitReader(res.Body, maxLine)).Decode(&v); err != nil {
		err = c.readError(ctx, "api response", err)
	}
	return v, err
}

// readError returns why a response could not be read to its end.
func (c *Client) readError(ctx context.Context, what string, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return wentAway()
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return c.foreign("response is not JSON")
	}
	return fmt.Errorf("%s: %w", what, err)
}

// follow reads a stream of documents to its end.
func follow[T any](ctx context.Context, c *Client, path string, query url.Values, fn func(T) error) error {
	res, err := c.do(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var end streamEnd
		if json.Unmarshal(lines.Bytes(), &end) == nil && end.End {
			if end.Error != nil {
				return end.Error
			}
			return nil
		}
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			return fmt.Errorf("api stream: %w", err)
		}
		if err := fn(v); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("api stream: a document of more than %d bytes", maxLine)
	}
	return wentAway()
}

func values(kv ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(kv); i += 2 {
		v.Set(kv[i], kv[i+1])
	}
	return v
}

func ringFlag(ring bool) url.Values {
	if ring {
		return values("ring", "1")
	}
	return nil
}

// Status implements Backend.
func (c *Client) Status(ctx context.Context, ring bool) (*Status, error) {
	return call[*Status](ctx, c, http.MethodGet, "/v1/status", ringFlag(ring), nil)
}

// Ring implements Backend.
func (c *Client) Ring(ctx context.Context) (*Ring, error) {
	return call[*Ring](ctx, c, http.MethodGet, "/v1/ring", nil, nil)
}

// Watch implements Backend.
func (c *Client) Watch(ctx context.Context, fn func(RingEvent) error) error {
	return follow(ctx, c, "/v1/watch", nil, fn)
}

// Lookup implements Backend.
func (c *Client) Lookup(ctx context.Context, query string) (*Lookup, error) {
	return call[*Lookup](ctx, c, http.MethodGet, "/v1/lookup", values("q", query), nil)
}

// Hosts implements Backend.
func (c *Client) Hosts(ctx context.Context, ring bool, fn func(HostLine) error) error {
	return follow(ctx, c, "/v1/hosts", ringFlag(ring), fn)
}

// Peers implements Backend.
func (c *Client) Peers(ctx context.Context) ([]PeerLine, error) {
	return call[[]PeerLine](ctx, c, http.MethodGet, "/v1/peers", nil, nil)
}

// Host implements Backend.
func (c *Client) Host(ctx context.Context, host string) (*Host, error) {
	return call[*Host](ctx, c, http.MethodGet, "/v1/host", values("host", host), nil)
}

// Why implements Backend.
func (c *Client) Why(ctx context.Context, u string) (*Why, error) {
	return call[*Why](ctx, c, http.MethodGet, "/v1/why", values("url", u), nil)
}

// Invite implements Backend.
func (c *Client) Invite(ctx context.Context, id string, valid time.Duration) (*Invitation, error) {
	return call[*Invitation](ctx, c, http.MethodPost, "/v1/members/invite", values("peer", id, "for", valid.String()), nil)
}

// Revoke implements Backend.
func (c *Client) Revoke(ctx context.Context, id string) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, "/v1/members/revoke", values("peer", id), nil)
	return err
}

// Accept implements Backend.
func (c *Client) Accept(ctx context.Context, certificate string) (*Admission, error) {
	return call[*Admission](ctx, c, http.MethodPost, "/v1/members/accept", values("certificate", certificate), nil)
}

// OptOutCheck implements Backend.
func (c *Client) OptOutCheck(ctx context.Context, u string) (*OptOutCheck, error) {
	return call[*OptOutCheck](ctx, c, http.MethodGet, "/v1/optouts/check", values("url", u), nil)
}

// OptOuts implements Backend.
func (c *Client) OptOuts(ctx context.Context) (*OptOuts, error) {
	return call[*OptOuts](ctx, c, http.MethodGet, "/v1/optouts", nil, nil)
}

// SetOptOut implements Backend.
func (c *Client) SetOptOut(ctx context.Context, subject, action string) (*OptOut, error) {
	return call[*OptOut](ctx, c, http.MethodPost, "/v1/optouts", values("subject", subject, "action", action), nil)
}

// Post implements Backend.
func (c *Client) Post(ctx context.Context, spec JobSpec) (*Job, error) {
	return call[*Job](ctx, c, http.MethodPost, "/v1/jobs", nil, spec)
}

// AddSeeds implements Backend.
func (c *Client) AddSeeds(ctx context.Context, id string, urls []string) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, "/v1/jobs/"+url.PathEscape(id)+"/seeds", nil, urls)
	return err
}

// Jobs implements Backend.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) {
	return call[[]Job](ctx, c, http.MethodGet, "/v1/jobs", nil, nil)
}

// Job implements Backend.
func (c *Client) Job(ctx context.Context, id string) (*Job, error) {
	return call[*Job](ctx, c, http.MethodGet, "/v1/jobs/"+url.PathEscape(id), nil, nil)
}

// JobKey implements Backend.
func (c *Client) JobKey(ctx context.Context) (*JobKey, error) {
	return call[*JobKey](ctx, c, http.MethodGet, "/v1/jobkey", nil, nil)
}

// SetJob implements Backend.
func (c *Client) SetJob(ctx context.Context, id, action string) (*Job, error) {
	return call[*Job](ctx, c, http.MethodPost, "/v1/jobs/"+url.PathEscape(id)+"/"+url.PathEscape(action), nil, nil)
}

// SetRefresh implements Backend.
func (c *Client) SetRefresh(ctx context.Context, id, refresh string) (*Job, error) {
	return call[*Job](ctx, c, http.MethodPost, "/v1/jobs/"+url.PathEscape(id)+"/refresh", values("refresh", refresh), nil)
}

// Refresh implements Backend.
func (c *Client) Refresh(ctx context.Context, target string, now bool) (*Refresh, error) {
	v := values("target", target)
	if now {
		v.Set("now", "true")
	}
	return call[*Refresh](ctx, c, http.MethodPost, "/v1/refresh", v, nil)
}

// Wait implements Backend.
func (c *Client) Wait(ctx context.Context, job string, patience time.Duration, fn func(Progress) error) error {
	query := values("job", job)
	if patience >= 0 {
		query.Set("patience", patience.String())
	}
	return follow(ctx, c, "/v1/wait", query, fn)
}

// Pause implements Backend.
func (c *Client) Pause(ctx context.Context, d time.Duration) (*Limits, error) {
	ask := pauseRequest{}
	if d > 0 {
		ask.For = d.String()
	}
	return call[*Limits](ctx, c, http.MethodPost, "/v1/pause", nil, ask)
}

// Resume implements Backend.
func (c *Client) Resume(ctx context.Context) (*Limits, error) {
	return call[*Limits](ctx, c, http.MethodPost, "/v1/resume", nil, nil)
}

// Limits implements Backend.
func (c *Client) Limits(ctx context.Context) (*Limits, error) {
	return call[*Limits](ctx, c, http.MethodGet, "/v1/limits", nil, nil)
}

// SetLimits implements Backend.
func (c *Client) SetLimits(ctx context.Context, values map[string]string) (*Limits, error) {
	return call[*Limits](ctx, c, http.MethodPost, "/v1/limits", nil, values)
}

// Dashboard implements Backend.
func (c *Client) Dashboard(ctx context.Context) (*Dashboard, error) {
	return call[*Dashboard](ctx, c, http.MethodPost, "/v1/dashboard", nil, nil)
}

// Leave implements Backend.
func (c *Client) Leave(ctx context.Context) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, "/v1/leave", nil, nil)
	return err
}
