package nemesis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// reply is a reply in RESP 2.
type reply struct {
	null  bool
	err   string // of an error reply
	text  string // of a status or a string
	n     int64
	array []reply
}

// conn is a connection to a node. go-redis would hide which of its attempts a reply belongs to, and
// whether a request may have been sent, which decides what is known of an outcome.
type conn struct {
	nc net.Conn
	r  *bufio.Reader
	// between is called between the requests and the replies; nil: nothing is. It returns a new deadline, or a zero
	// time.
	between func() time.Time
}

// dialer opens connections to nodes.
type dialer func(ctx context.Context, addr string) (net.Conn, error)

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

// call sends some requests at once and returns their replies. sent reports whether the node may have got a
// part of them.
func (c *conn) call(deadline time.Time, requests ...[]string) (replies []reply, sent bool, err error) {
	if err := c.nc.SetDeadline(deadline); err != nil {
		return nil, false, err
	}
	var out []byte
	for _, args := range requests {
		out = fmt.Appendf(out, "*%d\r\n", len(args))
		for _, a := range args {
			out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(a), a)
		}
	}
	if _, err := c.nc.Write(out); err != nil {
		return nil, true, err
	}
	if c.between != nil {
		if later := c.between(); !later.IsZero() {
			if err := c.nc.SetDeadline(later); err != nil {
				return nil, true, err
			}
		}
	}
	for range requests {
		r, err := c.read(0)
		if err != nil {
			return nil, true, err
		}
		replies = append(replies, r)
	}
	return replies, true, nil
}

const (
	maxReply = 1 << 20 // of a string, and of the number of elements of an array
	maxDepth = 4
)

var errReply = errors.New("the reply is not RESP 2")

// read reads one reply.
func (c *conn) read(depth int) (r reply, err error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return r, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' || depth > maxDepth {
		return r, errReply
	}
	body := line[1 : len(line)-2]
	switch line[0] {
	case '+':
		r.text = body
		return r, nil
	case '-':
		r.err = body
		return r, nil
	}
	if r.n, err = strconv.ParseInt(body, 10, 64); err != nil {
		return r, errReply
	}
	switch line[0] {
	case ':':
		return r, nil
	case '$', '*':
		if r.n < 0 {
			return reply{null: true}, nil
		}
		if r.n > maxReply {
			return r, errReply
		}
		if line[0] == '$' {
			text := make([]byte, r.n+2)
			_, err = io.ReadFull(c.r, text)
			return reply{text: string(text[:r.n])}, err
		}
		list := reply{array: []reply{}}
		for range r.n {
			e, err := c.read(depth + 1)
			if err != nil {
				return r, err
			}
			list.array = append(list.array, e)
		}
		return list, nil
	}
	return r, errReply
}
