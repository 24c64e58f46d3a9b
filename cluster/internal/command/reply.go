package command

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/redcon"
)

// Reply collects replies in RESP2, or in RESP3 where that differs. The zero Reply is an empty one in RESP2.
type Reply struct {
	// Bytes are the replies so far.
	Bytes []byte
	// RESP3 selects the protocol.
	RESP3 bool
	// Grant asks for memory of so many bytes in all before long strings are appended; nil: it is always there. If it
	// returns false, Missing is set to what was asked for, of which Loan is not for the reply itself, and the reply is
	// not complete.
	Grant         func(bytes int) bool
	Missing, Loan int

	granted int
}

// grantAtOnce is the least that Grant is asked for.
const grantAtOnce = 512

// Fits makes room for n more bytes, and returns false if there is no memory for them.
func (p *Reply) Fits(n int) bool {
	switch need := len(p.Bytes) + n + longestHeader; {
	case p.Grant == nil:
	case need > p.granted:
		return p.grow(need)
	case need > cap(p.Bytes):
		p.allocate()
	}
	return true
}

// longestHeader is more than what a string has around it.
const longestHeader = 32

func (p *Reply) grow(need int) bool {
	switch size := max(need, 2*p.granted, grantAtOnce); {
	case p.Missing > 0:
		return false
	case p.Grant(size):
		p.granted = size
	case p.Grant(need):
		p.granted = need
	default:
		p.Missing = need
		return false
	}
	p.allocate()
	return true
}

// allocate makes the capacity of Bytes what was granted.
func (p *Reply) allocate() {
	if cap(p.Bytes) < p.granted {
		p.Bytes = append(make([]byte, 0, p.granted), p.Bytes...)
	}
}

// Borrow is Fits for n bytes that are not part of the reply. Nothing may be appended until GiveBack.
func (p *Reply) Borrow(n int) bool {
	need := max(cap(p.Bytes), len(p.Bytes)+longestHeader) + n
	switch {
	case p.Grant == nil || need <= p.granted:
	case p.Grant(need):
		p.granted = need
	default:
		p.Missing, p.Loan = need, n
		return false
	}
	return true
}

// GiveBack ends Borrow.
func (p *Reply) GiveBack() {
	if p.Grant != nil && p.granted > cap(p.Bytes) {
		p.granted = cap(p.Bytes)
		p.Grant(p.granted) // less is always granted
	}
}

// Granted notes that so many bytes in all were granted.
func (p *Reply) Granted(bytes int) { p.granted, p.Missing, p.Loan = bytes, 0, 0 }

// Release makes what was granted the capacity of Bytes, and forgets what is missing.
func (p *Reply) Release() { p.Granted(cap(p.Bytes)) }

// OK appends the status OK.
func (p *Reply) OK() { p.Bytes = redcon.AppendOK(p.Bytes) }

// Status appends a status, such as PONG.
func (p *Reply) Status(s string) { p.Bytes = redcon.AppendString(p.Bytes, s) }

// Error appends an error. The text begins with the code of the error, such as ERR. Line ends become spaces.
func (p *Reply) Error(text string) {
	p.Bytes = redcon.AppendError(p.Bytes, strings.TrimRight(text, "\r\n"))
}

// Errorf appends an error.
func (p *Reply) Errorf(format string, args ...any) { p.Error(fmt.Sprintf(format, args...)) }

// Int appends an integer.
func (p *Reply) Int(n int64) { p.Bytes = redcon.AppendInt(p.Bytes, n) }

// Flag appends 1 for true and 0 for false.
func (p *Reply) Flag(b bool) {
	if b {
		p.Int(1)
	} else {
		p.Int(0)
	}
}

// Bulk appends a string of bytes.
func (p *Reply) Bulk(b []byte) {
	if p.Fits(len(b)) {
		p.Bytes = redcon.AppendBulk(p.Bytes, b)
	}
}

// Text appends a string.
func (p *Reply) Text(s string) { p.Bytes = redcon.AppendBulkString(p.Bytes, s) }

// Verbatim appends a text that is meant to be read by people, such as INFO.
func (p *Reply) Verbatim(s string) {
	if !p.Fits(len(s)) {
		return
	}
	if !p.RESP3 {
		p.Text(s)
		return
	}
	p.header('=', len(s)+4)
	p.Bytes = append(append(append(p.Bytes, "txt:"...), s...), "\r\n"...)
}

// Null appends the absence of a string.
func (p *Reply) Null() {
	if p.RESP3 {
		p.Bytes = append(p.Bytes, "_\r\n"...)
	} else {
		p.Bytes = redcon.AppendNull(p.Bytes)
	}
}

// NullArray appends the absence of an array.
func (p *Reply) NullArray() {
	if p.RESP3 {
		p.Bytes = append(p.Bytes, "_\r\n"...)
	} else {
		p.Bytes = append(p.Bytes, "*-1\r\n"...)
	}
}

// Array begins an array; its elements follow.
func (p *Reply) Array(length int) { p.Bytes = redcon.AppendArray(p.Bytes, length) }

// Map begins a map: pairs of a key and its value follow. In RESP2 it is an array.
func (p *Reply) Map(pairs int) {
	if p.RESP3 {
		p.header('%', pairs)
	} else {
		p.Array(2 * pairs)
	}
}

// Set begins a set of different elements. In RESP2 it is an array.
func (p *Reply) Set(length int) {
	if p.RESP3 {
		p.header('~', length)
	} else {
		p.Array(length)
	}
}

// Any appends what kv.Cluster.Operate returns.
func (p *Reply) Any(v any) {
	switch v := v.(type) {
	case nil:
		p.Null()
	case string:
		p.Text(v)
	case []byte:
		p.Bulk(v)
	case int64:
		p.Int(v)
	case int:
		p.Int(int64(v))
	case []any:
		p.Array(len(v))
		for _, e := range v {
			p.Any(e)
		}
	default:
		p.Errorf("ERR the node replied with a %T, which the protocol cannot encode", v)
	}
}

func (p *Reply) header(kind byte, n int) {
	p.Bytes = append(strconv.AppendInt(append(p.Bytes, kind), int64(n), 10), "\r\n"...)
}

// mark is a position to which what follows can be replaced by an error or counted by an array.
type mark int

func (p *Reply) mark() mark { return mark(len(p.Bytes)) }

// since returns the number of bytes after a mark.
func (p *Reply) since(m mark) int { return len(p.Bytes) - int(m) }

func (p *Reply) undo(m mark) { p.Bytes = p.Bytes[:m] }

// arrayAt inserts the beginning of an array whose elements are what follows the mark. It is for
// arrays whose length is known only at their end.
func (p *Reply) arrayAt(m mark, length int) {
	var space [24]byte
	header := redcon.AppendArray(space[:0], length)
	body := p.since(m)
	p.Bytes = append(p.Bytes, header...)
	copy(p.Bytes[int(m)+len(header):], p.Bytes[m:int(m)+body])
	copy(p.Bytes[m:], header)
}
