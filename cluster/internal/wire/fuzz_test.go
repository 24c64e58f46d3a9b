package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzAdmit(f *testing.F) {
	whole := testHello.append(nil)
	f.Add(whole, false)
	f.Add(append(whole, make([]byte, proofSize)...), true)
	f.Add([]byte(magic), true)
	old := append([]byte(magic), make([]byte, 54)...)
	old[len(magic)] = 1
	f.Add(old, true)
	f.Fuzz(func(t *testing.T, in []byte, secret bool) {
		var key []byte
		if secret {
			key = testSecret
		}
		c := &script{in: bytes.NewReader(in)}
		h, _, err := admit(c, nil, key, accept)
		require.Less(t, c.out.Len(), 100+startSize)
		if secret {
			require.Error(t, err, "the proof cannot be guessed")
			return
		}
		if err == nil {
			again := h.append(nil)
			require.Equal(t, in[:len(again)], again, "what is accepted is encoded to the same bytes")
		}
	})
}

func FuzzHelloBody(f *testing.F) {
	f.Add(testHello.append(nil)[prefixSize:])
	f.Add((&hello{kind: kindControl, from: Peer{ID: "x"}}).append(nil)[prefixSize:])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := parseBody(in)
		if err != nil {
			return
		}
		require.NoError(t, h.check())
		require.LessOrEqual(t, len(in), maxBody)
		require.Equal(t, in, h.append(nil)[prefixSize:], "what is accepted is encoded to the same bytes")
	})
}

func FuzzGreet(f *testing.F) {
	name := speaker{Peer{"y", 3}, Start{1, make([]byte, keptNonces*nonceSize)}}.append(nil)
	f.Add(append([]byte{statusAccepted}, name...), false)
	f.Add(append([]byte{statusGroup}, name...), false)
	f.Add(append([]byte{statusProve}, make([]byte, keySize+1+proofSize)...), true)
	challenge := append([]byte{statusProve, 9}, make([]byte, keySize-1)...)
	f.Add(append(append(append(challenge, statusAccepted), name...), make([]byte, proofSize)...), true)
	f.Add([]byte{statusVersion, Version + 1}, true)
	f.Add([]byte("-ERR unknown command\r\n"), true)
	f.Fuzz(func(t *testing.T, in []byte, secret bool) {
		var key []byte
		if secret {
			key = testSecret
		}
		_, err := greet(&script{in: bytes.NewReader(in)}, testHello, key, anyStart)
		if secret {
			require.Error(t, err, "the proof cannot be guessed")
		} else {
			require.Equal(t, !bytes.HasPrefix(in, append([]byte{statusAccepted}, name[:peerSize+1]...)) || len(in) < 1+len(name), err != nil)
		}
	})
}

// Whatever arrives, what Read returns is a prefix of what the other side has written.
func FuzzRecords(f *testing.F) {
	key, messages := bytes.Repeat([]byte{7}, 32), [][]byte{[]byte("a"), bytes.Repeat([]byte("bc"), 300), {}, []byte("the end")}
	var sent script
	w := newSecureConn(&sent, key, key)
	for _, m := range messages {
		w.Write(m)
	}
	good, want := sent.out.Bytes(), bytes.Join(messages, nil)
	f.Add(good, uint8(3))
	f.Add(good[:len(good)-1], uint8(1))
	f.Add(append(append([]byte{}, good[:19]...), good...), uint8(200))
	f.Add([]byte{0xff, 0xff, 1}, uint8(1))
	f.Add([]byte{0, 0, 0, 0}, uint8(1))
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		r := newSecureConn(&script{in: bytes.NewReader(in)}, key, key)
		got, err := io.ReadAll(&steps{r, int(step) + 1})
		require.True(t, bytes.HasPrefix(want, got), "bytes that were never sent were accepted")
		if err == nil {
			require.True(t, bytes.HasPrefix(good, in), "the end was found too early")
		}
		_, again := r.Read(make([]byte, 1))
		if err != nil {
			require.Equal(t, err, again, "the error sticks")
		}
	})
}

func FuzzFrame(f *testing.F) {
	var b bytes.Buffer
	writeFrame(&b, frameResult, []byte(`{"a":1}`))
	f.Add(b.Bytes())
	f.Add([]byte{0, 0, 0, 0, 'R'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 'R'})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bufio.NewReader(bytes.NewReader(in))
		for {
			kind, payload, err := readFrame(r)
			if err != nil {
				return
			}
			var again bytes.Buffer
			require.NoError(t, writeFrame(&again, kind, payload))
			require.Equal(t, in[:again.Len()], again.Bytes(), "what is accepted is encoded to the same bytes")
			in = in[again.Len():]
		}
	})
}

// A whole connection of control calls: nothing panics, answers are frames, and only known methods run.
func FuzzControlCalls(f *testing.F) {
	frame := func(kind byte, payload string) []byte {
		var b bytes.Buffer
		writeFrame(&b, kind, []byte(payload))
		return b.Bytes()
	}
	f.Add(frame(frameCall, `{"method":"echo","timeout":5,"body":{"a":[1]}}`))
	f.Add(frame(frameStream, `{"method":"bytes","body":12}`))
	f.Add(append(frame(frameCall, `{"method":"none"}`), frame(frameCall, `{"method":"echo","timeout":-1}`)...))
	f.Add(frame(frameStream, `{"method":"echo","timeout":9223372036854775807}`))
	f.Add(frame(frameFailure, `{"code":"not-leader","group":4294967295}`))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, frameCall})
	l := &Listener{o: Options{Logger: slog.New(slog.DiscardHandler)}, limit: MaxMessage}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	ran := 0
	l.Handle("echo", func(_ context.Context, r json.RawMessage) (any, error) { ran++; return r, nil })
	l.HandleStream("bytes", func(_ context.Context, r json.RawMessage, w io.Writer) error {
		var n int
		if err := json.Unmarshal(r, &n); err != nil {
			return err
		}
		ran++
		_, err := w.Write(make([]byte, min(max(n, 0), 2*chunkSize)))
		return err
	})
	f.Fuzz(func(t *testing.T, in []byte) {
		ran = 0
		c := &quiet{script{in: bytes.NewReader(in)}}
		l.serveControl(c)
		r, answers := bufio.NewReader(&c.out), 0
		for {
			kind, payload, err := readFrame(r)
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			require.Contains(t, "RDEF", string(kind))
			if kind == frameFailure {
				var remote *RemoteError
				require.ErrorAs(t, l.decodeError(payload), &remote)
			}
			if kind != frameData {
				answers++
			}
		}
		require.LessOrEqual(t, ran, answers, "each call that ran was answered")
		require.LessOrEqual(t, 6*answers, len(in), "each answer is to a frame")
		_ = l.decodeError(in)
	})
}
