package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

// oneObject is a storage that has one object, whatever its name.
type oneObject struct{ content []byte }

var errOneObject = errors.New("this storage is only read")

func (o oneObject) Create(context.Context, string, io.Reader) error { return errOneObject }
func (o oneObject) Delete(context.Context, string) error            { return errOneObject }
func (o oneObject) List(context.Context, string) iter.Seq2[Object, error] {
	return func(func(Object, error) bool) {}
}
func (o oneObject) Open(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(o.content)), nil
}

// A list that is accepted has only valid lines, and is what would be written for them.
func FuzzLists(f *testing.F) {
	const id = "20260101T000000.000000000Z-0123456789abcdef"
	sum := strings.Repeat("0a", 32)
	f.Add([]byte("end\n"))
	f.Add([]byte(""))
	f.Add(listText([]string{objectName(sum, id), objectName(sum, id)}))
	f.Add(listText([]string{id, id}))
	f.Add([]byte(id + "\n\nend\n"))
	f.Add([]byte(strings.Repeat("x", 2*maxLine) + "\nend\n"))
	isObject := func(line string) bool {
		_, _, ok := parseObject(line)
		return ok
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for what, valid := range map[string]func(string) bool{"object": isObject, "ID": validID} {
			lines, err := Open(oneObject{text}).readLines(t.Context(), "list", what, valid)
			if err != nil {
				require.ErrorIs(t, err, base.ErrCorruption)
				continue
			}
			require.Equal(t, text, listText(lines))
			for _, line := range lines {
				require.True(t, valid(line))
			}
		}
	})
}

// A name that is accepted is the name that would be made of its parts.
func FuzzNames(f *testing.F) {
	const id = "20260101T000000.000000000Z-0123456789abcdef"
	for _, name := range []string{
		objectName(strings.Repeat("0a", 32), id), segmentName(id, 1), cursorName(id, id), "objects/00/", "segments/x/000000000000", id,
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if sum, id, ok := parseObject(name); ok {
			require.Equal(t, name, objectName(sum, id))
		}
		if stream, number, ok := parseSegment(name); ok {
			require.Equal(t, name, segmentName(stream, number))
		}
		if identity, stream, ok := parseCursor(name); ok {
			require.Equal(t, name, cursorName(identity, stream))
		}
		require.Equal(t, validID(name), func() bool { _, ok := timeOf(name); return ok }())
	})
}
