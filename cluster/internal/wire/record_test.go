package wire

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script is a connection on which a peer has sent all of its bytes already.
type script struct {
	net.Conn
	in  *bytes.Reader
	out bytes.Buffer
}

func (s *script) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s *script) Write(p []byte) (int, error) { return s.out.Write(p) }

// quiet is a script that has deadlines and an end.
type quiet struct{ script }

func (*quiet) SetReadDeadline(time.Time) error  { return nil }
func (*quiet) SetWriteDeadline(time.Time) error { return nil }
func (*quiet) Close() error                     { return nil }
func (*quiet) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// steps reads a few bytes at a time.
type steps struct {
	r io.Reader
	n int
}

func (s *steps) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.n)]) }

// pair returns two ends of a secured TCP connection, and the connections below.
func pair(t testing.TB) (a, b *secureConn, rawA, rawB net.Conn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	rawA, err = net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	rawB, err = ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { rawA.Close(); rawB.Close() })
	one, two := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	return newSecureConn(rawA, one, two), newSecureConn(rawB, two, one), rawA, rawB
}

func TestRecordsCarryAnyNumberOfBytes(t *testing.T) {
	a, b, _, _ := pair(t)
	a.out.rekey, b.in.rekey = 3, 3 // keys change often
	all := make([]byte, 1<<20)
	rand.Read(all)
	sizes := []int{1, 2, 15, 16, 17, smallBuffer - 18, smallBuffer, maxRecord - 1, maxRecord, maxRecord + 1, 3 * maxRecord, 5, 100000}
	sent := 0
	done := make(chan error, 1)
	for _, n := range sizes {
		sent += n
	}
	go func() {
		rest := all
		for _, n := range sizes {
			if _, err := a.Write(rest[:n]); err != nil {
				done <- err
				return
			}
			rest = rest[n:]
		}
		done <- a.Conn.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(&steps{b, 1000})
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.True(t, bytes.Equal(all[:sent], got))
	require.Nil(t, b.big, "a connection keeps no big buffer")
	require.NotEqual(t, bytes.Repeat([]byte{1}, keyLength), a.out.key, "the key has changed")
}

// records returns what a has sent for some messages, split into records.
func records(t *testing.T, key []byte, messages ...string) (all [][]byte) {
	for i := range messages {
		var sent script
		w := newSecureConn(&sent, key, key)
		for _, m := range messages[:i+1] {
			sent.out.Reset()
			_, err := w.Write([]byte(m))
			require.NoError(t, err)
		}
		all = append(all, bytes.Clone(sent.out.Bytes()))
	}
	return all
}

func TestRecordsThatWereTamperedWithAreFound(t *testing.T) {
	key, other := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	r := records(t, key, "one", "two!", "three")
	reflected := records(t, other, "one")
	read := func(parts ...[]byte) (string, error) {
		c := newSecureConn(&script{in: bytes.NewReader(bytes.Join(parts, nil))}, other, key)
		got, err := io.ReadAll(c)
		return string(got), err
	}
	got, err := read(r...)
	require.NoError(t, err)
	require.Equal(t, "onetwo!three", got)
	for name, c := range map[string]struct {
		parts [][]byte
		got   string
	}{
		"replayed":        {[][]byte{r[0], r[0]}, "one"},
		"reordered":       {[][]byte{r[1], r[0]}, ""},
		"left out":        {[][]byte{r[0], r[2]}, "one"},
		"sent back":       {[][]byte{reflected[0]}, ""},
		"cut":             {[][]byte{r[0], r[1][:5]}, "one"},
		"cut in a length": {[][]byte{r[0], r[1][:1]}, "one"},
		"shorter":         {[][]byte{{r[0][0], r[0][1] - 1}, r[0][2 : len(r[0])-1]}, ""},
		"empty":           {[][]byte{{0, 0}}, ""},
	} {
		got, err := read(c.parts...)
		require.ErrorIs(t, err, ErrRecord, name)
		require.Equal(t, c.got, got, name)
	}
	for i := range r[0] {
		altered := bytes.Clone(r[0])
		altered[i] ^= 1
		got, err := read(altered, r[1])
		require.ErrorIs(t, err, ErrRecord, "byte %d", i)
		require.Empty(t, got)
	}
}

// What is above records knows where its messages end, so a connection that ends between records deceives nobody.
func TestAStreamThatIsCutBetweenRecordsIsAnError(t *testing.T) {
	key := bytes.Repeat([]byte{1}, 32)
	var sent script
	w := newSecureConn(&sent, key, key)
	writeFrame(w, frameData, []byte("some"))
	whole := sent.out.Len()
	writeFrame(w, frameEnd, nil)
	read := func(n int) error {
		c := newSecureConn(&quiet{script{in: bytes.NewReader(sent.out.Bytes()[:n])}}, key, key)
		l := &Listener{}
		s := &streamReader{l: l, c: &controlConn{conn: &stallConn{Conn: c}}, ctx: t.Context()}
		s.c.r = bufio.NewReader(s.c.conn)
		got, err := io.ReadAll(s)
		require.Equal(t, "some", string(got))
		return err
	}
	require.NoError(t, read(sent.out.Len()))
	require.ErrorIs(t, read(whole), io.ErrUnexpectedEOF)
}

func TestAReadThatTimedOutContinues(t *testing.T) {
	a, b, rawA, _ := pair(t)
	record := a.seal(nil, []byte("late"))
	for _, part := range [][]byte{record[:1], record[1:7]} {
		_, err := rawA.Write(part)
		require.NoError(t, err)
		require.NoError(t, b.SetReadDeadline(time.Now().Add(time.Millisecond)))
		_, err = b.Read(make([]byte, 10))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	require.NoError(t, b.SetReadDeadline(time.Time{}))
	_, err := rawA.Write(record[7:])
	require.NoError(t, err)
	got := make([]byte, 10)
	n, err := b.Read(got)
	require.NoError(t, err)
	require.Equal(t, "late", string(got[:n]))
}

// After a write that failed the other side may have a part of a record: nothing must follow it.
func TestAWriteThatFailedIsTheLast(t *testing.T) {
	a, _, _, _ := pair(t)
	require.NoError(t, a.SetWriteDeadline(time.Unix(1, 0)))
	_, err := a.Write([]byte("x"))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, a.SetWriteDeadline(time.Time{}))
	_, again := a.Write([]byte("x"))
	require.Equal(t, err, again)
}

// What authentication costs, alone and with encryption.
func BenchmarkSeal(b *testing.B) {
	key := bytes.Repeat([]byte{1}, 32)
	for _, size := range []int{16, 200, 4 << 10, 60 << 10} {
		plain := make([]byte, size)
		dst := make([]byte, 0, size+64)
		b.Run(fmt.Sprintf("AES-GCM/size=%d", size), func(b *testing.B) {
			c := newSecureConn(nil, key, key)
			b.SetBytes(int64(size))
			for b.Loop() {
				c.seal(dst, plain)
			}
		})
		b.Run(fmt.Sprintf("HMAC-SHA256/size=%d", size), func(b *testing.B) {
			mac, seq := hmac.New(sha256.New, key), uint64(0)
			b.SetBytes(int64(size))
			for b.Loop() {
				mac.Reset()
				seq++
				mac.Write(binary.BigEndian.AppendUint64(dst, seq))
				mac.Write(plain)
				mac.Sum(dst)
			}
		})
	}
}
