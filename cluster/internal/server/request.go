package server

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unsafe"
)

// The bounds of requests, as in Redis 7.0, where these are the same.
const (
	maxInline         = 64 << 10 // of a line: an inline request, or a length
	maxArgs           = 1 << 20
	maxUnauthArgs     = 10       // before AUTH
	maxUnauthRequest  = 16 << 10 // of a whole request before AUTH; in Redis of each argument
	unauthBuffer      = 1 << 10  // the first one before AUTH
	initialBuffer     = 4 << 10
	largestIdleBuffer = 256 << 10
)

// errProtocol is a request that cannot be understood. The connection ends after it, because the beginning
// of the next request is unknown.
type errProtocol string

func (e errProtocol) Error() string { return "Protocol error: " + string(e) }

// requests reads the requests of a connection: arrays of strings, or lines.
//
// redcon's reader is not used, because a client could harm it: it takes the number of arguments and their lengths as
// they come, loops over a count of 2^62, and grows its stack with each read of a long request. Here memory follows the
// bytes that have arrived, never a length that a client announces, and no byte is parsed twice.
type requests struct {
	source io.Reader
	limit  int // of the bytes of a request

	buf        []byte // nil before the first fill
	start, end int    // buf[start:end] is unread; the request in progress begins at start
	filled     bool
	completed  int // requests so far
	last       int // bytes of the last one
	// authenticated says that the client may send long requests.
	authenticated bool

	// The request in progress. Positions are relative to start.
	next  int   // the next byte to parse
	left  int   // arguments that are missing; -1: the count is missing
	bulk  int   // the length of the argument at next; -1: the length is missing
	spans []int // the first and the last position of each argument

	args [][]byte // of all requests since fill
}

func newRequests(source io.Reader, limit int) *requests {
	return &requests{source: source, limit: limit, left: -1, bulk: -1}
}

// manyArgs is how many arguments a connection has room for without a charge.
const manyArgs = 4096

// fewArgs is how many arguments a connection that is idle may keep room for, without a charge.
const fewArgs = 32

// forget ends the use of the arguments that Next has returned.
func (q *requests) forget() {
	clear(q.args)
	q.args = q.args[:0]
	if cap(q.args) > manyArgs {
		q.args, q.spans = nil, append([]int(nil), q.spans...)
	}
}

// fill reads what has arrived, or waits for something. Arguments that Next has returned are no longer valid.
func (q *requests) fill() error {
	q.forget()
	q.makeRoom(q.room())
	n, err := q.source.Read(q.buf[q.end:])
	q.end += n
	q.filled = q.end == len(q.buf)
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// unread returns how many bytes of the request in progress have arrived.
func (q *requests) unread() int { return q.end - q.start }

// room returns the size that the buffer needs for the next fill.
func (q *requests) room() int {
	first, largest := initialBuffer, largestIdleBuffer
	if !q.authenticated {
		first, largest = unauthBuffer, maxUnauthRequest
	}
	switch unread := q.unread(); {
	case len(q.buf) == 0:
		return first
	case unread == 0 && len(q.buf) > largest:
		return first
	case unread == len(q.buf), q.filled && len(q.buf) < largest:
		return 2 * len(q.buf)
	}
	return len(q.buf)
}

// makeRoom leaves space for at least one byte at the end of the buffer, which gets a size that room has returned.
func (q *requests) makeRoom(size int) {
	unread := q.unread()
	switch {
	case size != len(q.buf):
		other := make([]byte, size)
		copy(other, q.buf[q.start:q.end])
		q.buf = other
	case q.start > 0:
		copy(q.buf, q.buf[q.start:q.end])
	}
	q.start, q.end = 0, unread
}

// memory returns the bytes that it will use during the next fill, without those that every connection has. Until then,
// arguments count too.
func (q *requests) memory() int {
	return max(0, q.room()-initialBuffer) + 8*max(0, cap(q.spans)-2*fewArgs) + argBytes*max(0, cap(q.args)-manyArgs)
}

// large reports whether there is more memory than an idle connection should have.
func (q *requests) large() bool {
	return len(q.buf) > initialBuffer || cap(q.spans) > 2*fewArgs || cap(q.args) > fewArgs
}

// argBytes is the size of an argument besides its bytes, which are in buf.
const argBytes = int(unsafe.Sizeof([]byte(nil)))

// release gives large buffers back. There must be no unread bytes.
func (q *requests) release() {
	q.buf, q.start, q.end, q.filled, q.spans, q.args = nil, 0, 0, false, nil, nil
}

// Next returns the arguments of the next request, which are valid until fill. It returns nil if the
// rest of the request has not arrived. Requests without arguments are skipped.
func (q *requests) Next(authenticated bool) ([][]byte, error) {
	q.authenticated = authenticated
	for q.start+q.next < q.end {
		var args [][]byte
		var complete bool
		var err error
		if q.left < 0 && q.next == 0 && q.buf[q.start] != '*' {
			args, complete, err = q.inline()
		} else {
			args, complete, err = q.array()
		}
		if err != nil || !complete || len(args) > 0 {
			return args, err
		}
	}
	return nil, nil
}

// line returns the line at next without its end, and skips it. Redis ends a line at CR, and takes the byte
// after that for granted.
func (q *requests) line(tooBig errProtocol) (line []byte, complete bool, err error) {
	rest, longest := q.buf[q.start+q.next:q.end], q.longestLine()
	i := bytes.IndexByte(rest[:min(len(rest), longest)], '\r')
	if i < 0 {
		if len(rest) >= longest {
			return nil, false, tooBig
		}
		return nil, false, nil
	}
	if i+1 >= len(rest) {
		return nil, false, nil
	}
	q.next += i + 2
	return rest[:i], true, nil
}

func (q *requests) longestLine() int {
	if q.authenticated {
		return maxInline
	}
	return maxUnauthRequest
}

// done ends the request in progress.
func (q *requests) done() {
	q.completed++
	q.last = q.next
	q.start += q.next
	q.next, q.left, q.bulk, q.spans = 0, -1, -1, q.spans[:0]
}

func (q *requests) array() (args [][]byte, complete bool, err error) {
	if q.left < 0 {
		if complete, err := q.count(); !complete || err != nil {
			return nil, false, err
		}
	}
	for q.left > 0 {
		if complete, err := q.argument(); !complete || err != nil {
			return nil, false, err
		}
	}
	first := len(q.args)
	q.args = slices.Grow(q.args, len(q.spans)/2)
	for i := 0; i < len(q.spans); i += 2 {
		q.args = append(q.args, q.buf[q.start+q.spans[i]:q.start+q.spans[i+1]:q.start+q.spans[i+1]])
	}
	q.done()
	return q.args[first:len(q.args):len(q.args)], true, nil
}

func (q *requests) count() (complete bool, err error) {
	line, complete, err := q.line("too big mbulk count string")
	if !complete || err != nil {
		return false, err
	}
	n, err := strconv.ParseInt(string(line[1:]), 10, 64)
	switch {
	case err != nil || n > maxArgs:
		return false, errProtocol("invalid multibulk length")
	case n > maxUnauthArgs && !q.authenticated:
		return false, errProtocol("unauthenticated multibulk length")
	}
	q.left = int(max(n, 0))
	return true, nil
}

func (q *requests) argument() (complete bool, err error) {
	if q.bulk < 0 {
		if complete, err := q.length(); !complete || err != nil {
			return false, err
		}
	}
	if q.end-q.start-q.next < q.bulk+2 {
		return false, nil
	}
	q.spans = append(q.spans, q.next, q.next+q.bulk)
	q.next += q.bulk + 2
	q.bulk = -1
	q.left--
	return true, nil
}

// length parses the line before an argument.
func (q *requests) length() (complete bool, err error) {
	if q.start+q.next == q.end {
		return false, nil
	}
	if b := q.buf[q.start+q.next]; b != '$' {
		return false, errProtocol(fmt.Sprintf("expected '$', got '%c'", printable(b)))
	}
	line, complete, err := q.line("too big bulk count string")
	if !complete || err != nil {
		return false, err
	}
	n, err := strconv.ParseInt(string(line[1:]), 10, 64)
	switch {
	case err != nil || n < 0 || n > int64(q.limit-q.next):
		return false, errProtocol("invalid bulk length")
	case n > int64(maxUnauthRequest-q.next) && !q.authenticated:
		return false, errProtocol("unauthenticated bulk length")
	}
	q.bulk = int(n)
	return true, nil
}

func printable(b byte) byte {
	if b < ' ' || b > '~' {
		return '?'
	}
	return b
}

// inline parses a request that is a line, as people type it.
func (q *requests) inline() (args [][]byte, complete bool, err error) {
	rest, longest := q.buf[q.start:q.end], q.longestLine()
	i := bytes.IndexByte(rest[:min(len(rest), longest)], '\n')
	if i < 0 {
		if len(rest) >= longest {
			return nil, false, errProtocol("too big inline request")
		}
		return nil, false, nil
	}
	q.next = i + 1
	words, err := splitWords(bytes.TrimSuffix(rest[:i], []byte("\r")))
	if err != nil {
		return nil, false, err
	}
	q.done()
	return words, true, nil
}

var errQuotes error = errProtocol("unbalanced quotes in request")

// splitWords divides a line into words, with quotes and escapes as Redis's sdssplitargs does.
func splitWords(line []byte) (words [][]byte, err error) {
	for {
		line = bytes.TrimLeft(line, " \t\n\v\f\r")
		if len(line) == 0 {
			return words, nil
		}
		var word []byte
		if word, line, err = splitWord(line); err != nil {
			return nil, err
		}
		words = append(words, word)
	}
}

// splitWord returns the first word of a line and the rest. A word may have quoted parts; one ends it.
func splitWord(line []byte) (word, rest []byte, err error) {
	word = []byte{}
	for i := 0; i < len(line); i++ {
		switch b := line[i]; b {
		case ' ', '\t', '\n', '\r', 0:
			return word, line[i+1:], nil
		case '"', '\'':
			quoted, length, ok := unquote(line[i+1:], b)
			rest = line[min(i+1+length, len(line)):]
			if !ok || len(rest) > 0 && !isSpace(rest[0]) {
				return nil, nil, errQuotes
			}
			return append(word, quoted...), rest, nil
		default:
			word = append(word, b)
		}
	}
	return word, nil, nil
}

func isSpace(b byte) bool { return b == ' ' || '\t' <= b && b <= '\r' }

// unquote returns the text up to a quote, and its length in the line with that quote.
func unquote(line []byte, quote byte) (text []byte, length int, ok bool) {
	for i := 0; i < len(line); i++ {
		b := line[i]
		switch {
		case b == quote:
			return text, i + 1, true
		case b == '\\' && quote == '\'' && i+1 < len(line) && line[i+1] == '\'':
			i++
			b = '\''
		case b == '\\' && quote == '"' && i+1 < len(line):
			var skip int
			b, skip = unescape(line[i+1:])
			i += skip
		}
		text = append(text, b)
	}
	return nil, 0, false
}

// unescape returns the byte that an escape stands for, and the length of what follows its backslash.
func unescape(s []byte) (b byte, length int) {
	if s[0] == 'x' && len(s) >= 3 {
		if n, err := strconv.ParseUint(string(s[1:3]), 16, 8); err == nil {
			return byte(n), 3
		}
	}
	if i := bytes.IndexByte([]byte("nrtba"), s[0]); i >= 0 {
		return "\n\r\t\b\a"[i], 1
	}
	return s[0], 1
}
