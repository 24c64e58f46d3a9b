package server

import (
	"io"
	"net"
	"time"
)

// A client that gets an error and whose connection is closed then may still be sending, such as the rest of a request
// that is too long. To close a connection with unread bytes resets it, and the client might never read the error: it
// reads only when it has sent all. So what it sends is discarded for a while, with little memory.
const (
	farewellTime   = 10 * time.Second
	farewellQuiet  = time.Second // without a byte
	farewellBytes  = 512 << 20   // the longest string of Redis
	farewellPart   = 16 << 10
	strangersTime  = time.Second // before AUTH, or if there is no place
	strangersBytes = 1 << 20
)

// closeWrite tells the client that nothing follows, if the connection can do that alone.
func closeWrite(nc net.Conn) {
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// farewell discards what the client sends, until it closes the connection, is quiet, or the server closes.
func (c *conn) farewell() {
	longest, most := min(farewellTime, c.server.options.RequestTimeout), int64(farewellBytes)
	if !c.session.authenticated {
		longest, most = strangersTime, strangersBytes
	}
	c.in.release()
	c.out.Bytes = nil
	c.memory.force(0)
	closeWrite(c.nc)
	part := make([]byte, farewellPart)
	for end := time.Now().Add(longest); most > 0; {
		quiet := time.Now().Add(farewellQuiet)
		if quiet.After(end) {
			quiet = end
		}
		c.setDeadline(quiet)
		n, err := c.nc.Read(part)
		if most -= int64(n); err != nil {
			return
		}
	}
}

// dismiss sends an error to a connection for which there is no place, and closes it.
func dismiss(nc net.Conn) {
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(strangersTime))
	if _, err := io.WriteString(nc, "-"+tooManyClients+"\r\n"); err != nil {
		return
	}
	closeWrite(nc)
	_, _ = io.CopyN(io.Discard, nc, strangersBytes)
}
