package machine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

func install(m *Machine, b []byte) error {
	return m.InstallState(context.Background(), bytes.NewReader(b))
}

// forged builds a stream with valid checksums from any files and a header.
func forged(h header, files ...file) []byte {
	b := h.encode()
	for _, f := range files {
		b = append(b, f.encode()...)
		data := make([]byte, min(f.size, 100))
		b = append(b, data...)
		b = binary.BigEndian.AppendUint32(b, crc32.Checksum(data, castagnoli))
	}
	b = append(b, trailerMagic...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(b)-8+trailerLen))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func TestAStateIsTheSameAfterItsStream(t *testing.T) {
	a, b := open(t, vfs.NewMem()), open(t, vfs.NewMem())
	fill(t, a, 2, 300)
	a.Apply(configuration(301, "n1", "n2"))
	require.NoError(t, install(b, stream(t, a)))
	require.Equal(t, content(t, a), content(t, b))
	require.Equal(t, a.at(), b.at())

	a.Apply(configuration(302)) // and as raft sends it
	meta, from, err := a.Snapshots().Open(presentID)
	require.NoError(t, err)
	to, err := b.Snapshots().Create(1, meta.Index, meta.Term, meta.Configuration, meta.ConfigurationIndex, nil)
	require.NoError(t, err)
	n, err := io.Copy(to, from)
	require.NoError(t, errors.Join(err, from.Close(), to.Close()))
	require.Equal(t, meta.Size, n)
	_, received, err := b.Snapshots().Open(to.ID())
	require.NoError(t, err)
	require.NoError(t, b.Restore(received))
	require.Equal(t, a.at(), b.at())
}

func TestHostileStreamsAreRefusedAndLeaveNothing(t *testing.T) {
	source := open(t, vfs.NewMem())
	fill(t, source, 1, 200)
	good := stream(t, source)
	closeMachine(t, source)
	cases := map[string][]byte{
		"empty":                      nil,
		"a byte more":                append(bytes.Clone(good), 0),
		"twice":                      append(bytes.Clone(good), good...),
		"no files":                   forged(header{index: 1}),
		"fewer bytes than announced": forged(header{files: 1, bytes: 20}, file{"CURRENT", 10}),
		"more bytes than announced":  forged(header{files: 1, bytes: 5}, file{"CURRENT", 10}),
		"a file twice":               forged(header{files: 2, bytes: 2}, file{"CURRENT", 1}, file{"CURRENT", 1}),
		"too many files":             forged(header{files: maxFiles + 1}),
		"too many bytes":             forged(header{files: 1, bytes: maxStateBytes + 1}, file{"CURRENT", maxStateBytes + 1}),
		"a size near 2^64":           forged(header{files: 1, bytes: 1 << 40}, file{"CURRENT", 1<<64 - 1}),
		"no database":                forged(header{files: 1, bytes: 8}, file{"CURRENT", 8}),
	}
	for _, name := range []string{"", ".", "..", "../STATE", "a/000001.ldb", "/000001.ldb", "000001.ldb\x00", "LOCK", "000001.ldb/..", `..\STATE`, "CURRENT\n"} {
		cases[fmt.Sprintf("the name %q", name)] = forged(header{files: 1, bytes: 1}, file{name, 1})
	}
	for cut := 0; cut < len(good); cut += 1 + len(good)/60 {
		cases[fmt.Sprintf("cut at %d", cut)] = good[:cut]
	}
	for at := 0; at < len(good); at += 1 + len(good)/150 {
		flipped := bytes.Clone(good)
		flipped[at] ^= 1 << (at % 8)
		cases[fmt.Sprintf("flipped at %d", at)] = flipped
	}
	mem := vfs.NewMem()
	m := open(t, mem)
	fill(t, m, 1, 3)
	want := content(t, m)
	for name, b := range cases {
		t.Run(name, func(t *testing.T) {
			require.Error(t, install(m, b))
			require.Equal(t, []string{"STATE", "state-000001"}, dirs(t, mem))
			require.Error(t, receiveFromRaft(m, b, 200, 1))
			require.Equal(t, []string{"STATE", "state-000001"}, dirs(t, mem))
		})
	}
	require.Equal(t, want, content(t, m))
	require.NoError(t, m.Err())
}

// receiveFromRaft does what raft does with a snapshot of another node.
func receiveFromRaft(m *Machine, b []byte, index, term uint64) error {
	s, err := m.Snapshots().Create(1, index, term, raft.Configuration{}, 0, nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(s, bytes.NewReader(b)); err != nil {
		_ = s.Cancel()
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	_, rc, err := m.Snapshots().Open(s.ID())
	if err != nil {
		return err
	}
	if err := m.Restore(rc); err != nil {
		return err
	}
	return rc.Close()
}

func FuzzReceive(f *testing.F) {
	source := open(f, vfs.NewMem())
	source.Apply(simple(f, 1))
	f.Add(stream(f, source))
	f.Add(forged(header{files: 1, bytes: 1}, file{"CURRENT", 1}))
	f.Add(forged(header{files: 1, bytes: 1}, file{"../x", 1}))
	closeMachine(f, source)
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := vfs.NewMem()
		h, err := receive(context.Background(), mem, "in/state", bytes.NewReader(b))
		names, listErr := mem.List("in")
		require.NoError(t, listErr)
		require.Equal(t, []string{"state"}, names)
		if err != nil {
			require.ErrorIs(t, err, ErrStream)
			return
		}
		files, bytesOfFiles, err := listFiles(mem, "in/state")
		require.NoError(t, err)
		require.Equal(t, h.bytes, bytesOfFiles)
		require.Equal(t, uint64(len(b)), streamLen(files))
	})
}

func TestTheStreamKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		began := time.Now()
		s := newSender(context.Background(), &b, 10_000)
		for range 50 {
			require.NoError(t, s.write(make([]byte, chunkFor(10_000))))
		}
		rate := float64(b.Len()) / time.Since(began).Seconds()
		require.InDelta(t, 10_000, rate, 500)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		slow := newSender(ctx, &b, 1)
		require.NoError(t, slow.write(make([]byte, 100)))
		require.ErrorIs(t, slow.write(nil), context.DeadlineExceeded)
	})
}

// Each operation of receiving and restoring a state fails once, and the power fails before each. The state
// is then the old one or the new one; the machine has one of them, or has failed.
func TestARestoreThatFailsLeavesTheOldOrTheNewState(t *testing.T) {
	source := open(t, vfs.NewMem())
	fill(t, source, 61, 120)
	incoming, newContent := stream(t, source), content(t, source)
	closeMachine(t, source)
	outcomes := map[string]int{}
	for nth := uint64(0); ; nth++ {
		mem := vfs.NewMem()
		var mu sync.Mutex // guards what the hook shares
		armed, start := false, uint64(0)
		var cut *vfs.Mem
		fsys := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
			mu.Lock()
			defer mu.Unlock()
			if !armed || op.Index != start+nth {
				return nil
			}
			cut = mem.Crash()
			return &wrap.Fault{}
		})
		m := open(t, fsys)
		fill(t, m, 21, 60)
		require.NoError(t, m.WithDB(func(d *db.DB) error { return d.SyncLog() }))
		oldContent := content(t, m)
		mu.Lock()
		start, armed = fsys.Ops(), true
		mu.Unlock()
		err := receiveFromRaft(m, incoming, 120, 1)
		m.retired.Wait()
		mu.Lock()
		armed = false
		mu.Unlock()
		check := func(m *Machine) string {
			switch index, _ := m.Applied(); index {
			case 60:
				require.Equal(t, oldContent, content(t, m), "operation %d", nth)
				return "old"
			case 120:
				require.Equal(t, newContent, content(t, m), "operation %d", nth)
				return "new"
			default:
				t.Fatalf("operation %d: applied %d", nth, index)
				return ""
			}
		}
		outcome := "failed"
		if m.Err() == nil {
			outcome = check(m)
			require.Equal(t, err == nil, outcome == "new", "operation %d: %v", nth, err)
		}
		outcomes[outcome]++
		for _, left := range []*vfs.Mem{cut, mem.Crash()} {
			if left == nil {
				continue
			}
			after := open(t, left)
			got := check(after)
			if outcome != "failed" && left != cut {
				require.Equal(t, outcome, got, "operation %d", nth)
			}
			require.Len(t, dirs(t, left), 2)
			closeMachine(t, after)
		}
		_ = m.Close()
		if cut == nil {
			break
		}
	}
	t.Log(outcomes)
	require.Greater(t, outcomes["old"], 10)
	require.Positive(t, outcomes["failed"])
	require.Positive(t, outcomes["new"])
}

func TestAMissingPointerIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	m := open(t, mem)
	fill(t, m, 1, 3)
	closeMachine(t, m)
	require.NoError(t, mem.Rename("replica/STATE", "replica/LOST"))
	_, err := Open(smallOptions(mem))
	require.ErrorIs(t, err, ErrNoState)
	require.NoError(t, mem.Rename("replica/LOST", "replica/STATE"))
	m = open(t, mem)
	require.Len(t, content(t, m), 3)
}

func TestADamagedPointerIsRefused(t *testing.T) {
	good := pointer{name: "state-000012"}.String()
	p, err := parsePointer([]byte(good))
	require.NoError(t, err)
	require.Equal(t, pointer{name: "state-000012"}, p)
	for i := range good {
		b := []byte(good)
		b[i] ^= 1
		_, err := parsePointer(b)
		require.Error(t, err)
		_, err = parsePointer([]byte(good[:i]))
		require.Error(t, err)
	}
	_, err = parsePointer([]byte(pointer{name: "send-000012"}.String()))
	require.Error(t, err)
}

// A power cut before any operation of the first Open leaves what the next one can open.
func TestTheFirstOpenSurvivesAPowerCutAtAnyMoment(t *testing.T) {
	for nth := uint64(0); ; nth++ {
		mem := vfs.NewMem()
		var mu sync.Mutex // guards cut
		var cut *vfs.Mem
		m, err := Open(smallOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
			mu.Lock()
			defer mu.Unlock()
			if op.Index == nth {
				cut = mem.Crash()
			}
			return nil
		})))
		require.NoError(t, err)
		closeMachine(t, m)
		if cut == nil {
			return
		}
		m = open(t, cut)
		fill(t, m, 1, 1)
		closeMachine(t, m)
	}
}

// The bytes of a damaged table would pass all checksums of a stream, and the damage would reach other replicas.
func TestADamagedTableIsNotSent(t *testing.T) {
	late := 0
	for at := range 16 {
		o := Options{Dir: "replica", FS: vfs.NewMem()}
		m, err := Open(o)
		require.NoError(t, err)
		fill(t, m, 1, 3000)
		require.NoError(t, m.WithDB(func(d *db.DB) error { return d.Flush() }))
		state := filepath.Join("replica", m.present.name)
		closeMachine(t, m)
		names, err := o.FS.List(state)
		require.NoError(t, err)
		i := slices.IndexFunc(names, func(name string) bool { return filepath.Ext(name) == ".ldb" })
		require.GreaterOrEqual(t, i, 0, "there is a table")
		fixture.ChangeFile(t, o.FS, filepath.Join(state, names[i]), func(data []byte) { data[(2*at+1)*len(data)/32] ^= 1 })

		if m, err = Open(o); err != nil {
			require.ErrorIs(t, err, db.ErrCorruption)
			continue
		}
		late++
		var b bytes.Buffer
		_, err = m.WriteState(t.Context(), &b)
		require.ErrorIs(t, err, db.ErrCorruption, "part %d of 16", at)
		require.ErrorIs(t, m.Err(), db.ErrCorruption)
		_, err = receive(t.Context(), vfs.NewMem(), "received", &b)
		require.ErrorIs(t, err, ErrStream)
		closeMachine(t, m)
	}
	require.Greater(t, late, 8, "most blocks are not read before")
}
