package fetch

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"golang.org/x/net/proxy"
)

// ParseProxy parses the address of a proxy: socks5://HOST:PORT or http://HOST:PORT, with optional
// user name and password before the host.
func ParseProxy(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("must be socks5://HOST:PORT or http://HOST:PORT") // without the password
	}
	if u.Scheme != "socks5" && u.Scheme != "http" || u.Hostname() == "" || u.Port() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		return nil, fmt.Errorf("%q: must be socks5://HOST:PORT or http://HOST:PORT", u.Redacted())
	}
	return u, nil
}

// ViaProxy returns a Config.Dial that connects through the proxy at an address of ParseProxy. The
// proxy gets resolved addresses, which passed the address filter, and no names.
func ViaProxy(at *url.URL, dialer *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return tunnel(ctx, dialer, at, network, address)
	}
	if at.Scheme == "socks5" {
		var auth *proxy.Auth
		if at.User != nil {
			password, _ := at.User.Password()
			auth = &proxy.Auth{User: at.User.Username(), Password: password}
		}
		socks, err := proxy.SOCKS5("tcp", at.Host, auth, dialer)
		dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if err != nil {
				return nil, err
			}
			return socks.(proxy.ContextDialer).DialContext(ctx, network, address)
		}
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := dial(ctx, network, address)
		for op, ok := errors.AsType[*net.OpError](err); ok; op, ok = errors.AsType[*net.OpError](err) {
			err = op.Err // owners of hosts get this text, without the proxy's address
		}
		if err != nil {
			err = fmt.Errorf("proxy: %w", err)
		}
		return nc, err
	}
}

// tunnel connects through an HTTP proxy by CONNECT (RFC 9110, 9.3.6).
func tunnel(ctx context.Context, dialer *net.Dialer, at *url.URL, network, address string) (net.Conn, error) {
	nc, err := dialer.DialContext(ctx, network, at.Host)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	err = connect(nc, at, address)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return nc, nil
}

// maxProxyAnswer is the maximum size of the head of a proxy's answer, in bytes.
const maxProxyAnswer = 16 << 10

func connect(nc net.Conn, at *url.URL, address string) error {
	head := "CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n"
	if at.User != nil {
		password, _ := at.User.Password()
		head += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(at.User.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(nc, head+"\r\n"); err != nil {
		return err
	}
	answer := bufio.NewReaderSize(io.LimitReader(nc, maxProxyAnswer), maxProxyAnswer)
	resp, err := http.ReadResponse(answer, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	switch {
	case resp.StatusCode/100 != 2:
		return fmt.Errorf("CONNECT %s: %s", address, resp.Status)
	case answer.Buffered() > 0:
		return errors.New("unexpected data after the CONNECT response")
	}
	return nil
}
