package damage

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// lines is a store of one file with a line key=value for each key. fault is its fault.
type lines struct {
	pairs []Pair
	fault string
	fsys  vfs.FS
	at    int
	err   error
}

func openLines(fault string) func(vfs.FS) (Store, error) {
	return func(fsys vfs.FS) (Store, error) {
		switch fault {
		case "refuses to open":
			return nil, base.Corruptf("file", 0, "damaged")
		case "fails without a reason":
			return nil, errors.New("something is wrong")
		case "panics":
			panic("injected")
		case "allocates":
			sink = make([]byte, 65<<20)
		}
		b, err := ReadFile(fsys, "db/kv")
		if err != nil {
			return nil, err
		}
		s := &lines{fault: fault, fsys: fsys}
		for line := range bytes.Lines(b) {
			k, v, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte("="))
			s.pairs = append(s.pairs, Pair{k, v})
		}
		return s, nil
	}
}

var sink []byte

func (s *lines) Get(key []byte) ([]byte, error) {
	if s.fault == "reads forever" {
		for {
			if _, err := ReadFile(s.fsys, "db/kv"); err != nil {
				return nil, err
			}
		}
	}
	for i, p := range s.pairs {
		if bytes.Equal(p.Key, key) {
			switch {
			case s.fault == "loses a key" && i == 1:
				return nil, base.ErrNotFound
			case s.fault == "fails on a key" && i == 1:
				return nil, base.Corruptf("file", 0, "damaged")
			}
			return p.Value, nil
		}
	}
	if s.fault == "invents keys" {
		return key, nil
	}
	return nil, base.ErrNotFound
}

func (s *lines) NewIterator() (Iterator, error) { return &lines{pairs: s.pairs, fault: s.fault}, nil }
func (s *lines) Close() error                   { return nil }
func (s *lines) Err() error                     { return s.err }
func (s *lines) Key() []byte                    { return s.pairs[s.at].Key }
func (s *lines) Value() []byte                  { return s.pairs[s.at].Value }
func (s *lines) First() bool                    { return s.to(0) }
func (s *lines) Last() bool                     { return s.to(len(s.pairs) - 1) }
func (s *lines) Next() bool                     { return s.to(s.at + 1) }
func (s *lines) Prev() bool                     { return s.to(s.at - 1) }

func (s *lines) to(i int) bool {
	switch {
	case s.fault == "an iterator without end" && i == len(s.pairs):
		i = 0
	case s.fault == "an iterator that ends early" && i == 2:
		return false
	case s.fault == "an iterator that fails" && i == 2:
		s.err = base.Corruptf("file", 0, "damaged")
		return false
	case s.fault == "an iterator that fails and continues" && i == 2:
		s.err = base.Corruptf("file", 0, "damaged")
		return false
	case s.err != nil && s.fault == "an iterator that fails":
		return false
	}
	s.at = i
	return i >= 0 && i < len(s.pairs)
}

func testDriver(fault string) *Driver {
	var pairs []Pair
	for line := range bytes.Lines(intact["kv"]) {
		pairs = append(pairs, Pair{line[:1], line[2:3]})
	}
	return &Driver{
		Dir: "db", Open: openLines(fault), States: [][]Pair{pairs, pairs[:3]},
		Absent: [][]byte{[]byte("x")}, MaxOps: 500,
	}
}

var intact = Image{"kv": []byte("a=1\nb=2\nc=3\nd=4\n")}

func TestEachFaultIsClassified(t *testing.T) {
	for fault, want := range map[string]Class{
		"":                                     Correct,
		"refuses to open":                      Refused,
		"fails on a key":                       Refused,
		"an iterator that fails":               Refused,
		"fails without a reason":               Unclear,
		"loses a key":                          Silent,
		"invents keys":                         Silent,
		"an iterator that ends early":          Silent,
		"an iterator without end":              Silent,
		"an iterator that fails and continues": Silent,
		"panics":                               Panic,
		"reads forever":                        Hang,
		"allocates":                            Memory,
	} {
		t.Run(fault, func(t *testing.T) {
			out := testDriver(fault).Run(intact)
			require.Equal(t, want, out.Class, "%s %v", out.Detail, out.Err)
			if want > Unclear {
				require.NotEmpty(t, out.Detail)
			}
		})
	}
}

func TestEntriesOfTwoStatesAreWrong(t *testing.T) {
	d := testDriver("")
	out := d.Run(Image{"kv": []byte("a=1\nb=2\nc=3\n")})
	require.Equal(t, Correct, out.Class)
	require.Equal(t, 1, out.State)
	require.Equal(t, Silent, d.Run(Image{"kv": []byte("a=1\nb=2\n")}).Class)
	require.Equal(t, Silent, d.Run(Image{"kv": []byte("a=1\nb=2\nc=9\n")}).Class)
	require.Equal(t, Refused, d.Run(Image{}).Class, "a missing file is reported")
}

func TestHarmIsCompleteAndLeavesTheImageUnchanged(t *testing.T) {
	a, b := bytes.Repeat([]byte("abcdefgh"), 200), bytes.Repeat([]byte{7}, 100)
	im := Image{"a": a, "b": b}
	older := Image{"a": bytes.Repeat([]byte("older"), 120)}
	seen := map[string]bool{}
	count := func(seq func(func(Harm) bool)) (n int) {
		for h := range seq {
			n++
			key := ""
			for _, name := range h.Image.Names() {
				key += name + ":" + string(h.Image[name]) + ";"
			}
			require.False(t, seen[key], "%s: the same damage twice", h.What)
			require.NotEqual(t, im, h.Image, h.What)
			seen[key] = true
		}
		return n
	}
	require.Equal(t, 8*1600, count(Flips(im, "a")))
	clear(seen)
	require.Equal(t, 1600, count(Cuts(im, "a")))
	clear(seen)
	// Four sectors, the last of 64 bytes: all are zeroed and filled with 0xFF. The older copy has the
	// first two. Neighbours are equal, except the last sector, which is shorter.
	require.Equal(t, 4+4+2+1, count(Sectors(im, older, "a")))
	require.Equal(t, 2, count(Missing(im)))
	require.Equal(t, 1, count(Swaps(im, []string{"a", "b"})))
	require.Equal(t, 2*4, count(Tails(im, "a", SectorSize)))
	require.Equal(t, bytes.Repeat([]byte("abcdefgh"), 200), a)
	require.Equal(t, bytes.Repeat([]byte{7}, 100), b)
}

func TestImagesRoundTripThroughAFileSystem(t *testing.T) {
	fsys, err := intact.FS("some/dir")
	require.NoError(t, err)
	back, err := Load(fsys.Crash(), "some/dir", nil)
	require.NoError(t, err, "the image is durable")
	require.Equal(t, intact, back)
	none, err := Load(fsys, "some/dir", func(name string) bool { return name == "kv" })
	require.NoError(t, err)
	require.Empty(t, none)
	_, err = Load(fsys, "nowhere", nil)
	require.Error(t, err)
}

func TestTally(t *testing.T) {
	var tally Tally
	for _, c := range []Class{Correct, Refused, Refused, Silent} {
		tally.Add(c)
	}
	require.Equal(t, 4, tally.Total())
	require.Equal(t, 1, tally.Wrong())
	require.Equal(t, "      4 cases: 1 correct 2 refused 1 SILENT", tally.String())
	require.Equal(t, "Class(99)", Class(99).String())
}
