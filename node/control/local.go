package control

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// CheckAddress says what is wrong with an address to serve on, HOST:PORT, that must be one of this
// machine's own unless it is for others too: the flag is named in the error.
func CheckAddress(name, addr string, remote bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return Usage(fmt.Sprintf("%s %q: must be HOST:PORT, such as 127.0.0.1:9464", name, addr))
	}
	if ip, err := netip.ParseAddr(host); !remote && host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return Usage(fmt.Sprintf("%s %q: must be an address of loopback, such as 127.0.0.1; %s", name, addr, forOthers(name)))
	}
	return nil
}

// forOthers says how other machines are let in.
func forOthers(name string) string {
	if name == "pprof" {
		return "a proxy in front may let others in"
	}
	return "--api-remote lets other machines reach it, which need its token"
}

// ListenTCP opens such an address, of loopback unless it is for other machines too. It looks again
// at what was opened: a name may stand for another address.
func ListenTCP(ctx context.Context, name, addr string, remote bool) (net.Listener, error) {
	if err := CheckAddress(name, addr, remote); err != nil {
		return nil, err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if !remote && !IsLoopback(ln) {
		_ = ln.Close()
		return nil, Usage(fmt.Sprintf("%s %q: it stands for %s, which is not loopback; %s", name, addr, ln.Addr(), forOthers(name)))
	}
	return ln, nil
}

// IsLoopback says whether only processes of this machine reach a listener on TCP.
func IsLoopback(ln net.Listener) bool {
	tcp, ok := ln.Addr().(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// WantsToken says whether an API on a listener asks for its token: on TCP the file system keeps
// nobody away, other users of this machine least of all.
func WantsToken(ln net.Listener) bool { return ln.Addr().Network() != "unix" }

// ServeDebug serves h on a listener of ListenTCP until ctx ends, then waits briefly for the running
// requests. Those of other machines need the token.
func ServeDebug(ctx context.Context, what string, ln net.Listener, h http.Handler, token string, log *slog.Logger) error {
	if !IsLoopback(ln) {
		h = bearer(token, h)
	}
	return serve(ctx, what, ln, local("", h), log)
}

// serve serves h on ln. What a browser was led to ask is turned away.
func serve(ctx context.Context, what string, ln net.Listener, h http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if srv.Shutdown(stop) != nil {
			_ = srv.Close()
		}
	})
	err := srv.Serve(ln)
	if ctx.Err() == nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	wg.Wait()
	return nil
}

// local turns away what a browser was led to send: requests under a name that somebody pointed at
// this machine, and those that pages of other sites make. It answers to addresses, to localhost,
// and to one more name if there is one.
func local(name string, next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil && host != "localhost" && (name == "" || host != name) {
			http.Error(w, "ask by address, not by name", http.StatusForbidden)
			return
		}
		if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
			http.Error(w, "not for pages of other sites", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bearer lets in who brings the token. Hashes are compared, of one length and in constant time, so
// that timing tells nothing of it.
func bearer(token string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimSpace(given)))
		if token != "" && strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			next.ServeHTTP(w, r)
			return
		}
		text := "no token came"
		if given != "" {
			text = "the token is not this peer's"
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="apoidea"`)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(&Error{Kind: KindRefused, Text: "api: " + text + tokenCure}) // who is gone needs no answer
	})
}

// tokenCure says where the token is to be had.
const tokenCure = ": name the peer's own --data-dir, where it lies in api.token, or a copy of that file with --token-file"
