package docs_test

import (
	"encoding/xml"
	"io"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

// The picture shows the groups with their rooms as the table has them.
func TestRoomsPictureMatchesTheTable(t *testing.T) {
	const name = "docs/rooms.svg"
	want := drawRooms(t, groups(t), rooms(t))
	if *rewriteRooms {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(want), 0o644))
	}
	require.True(t, read(t, name) == want,
		"%s differs from the table of rooms; go test ./docs -run TestRooms -rooms.rewrite draws it anew", name)
	for room := range rooms(t) {
		_, last := path.Split(room)
		require.Contains(t, want, ">"+last+"</t", "%s is not drawn", room)
	}
}

// The counters in the picture of the read path are fields of db.Metrics.
func TestReadPathPictureNamesMetrics(t *testing.T) {
	picture := read(t, "docs/read-path.svg")
	counters := regexp.MustCompile(`class="count"[^>]*>(\w+)\.(\w+)<`).FindAllStringSubmatch(picture, -1)
	require.Len(t, counters, strings.Count(picture, `class="count"`), "a counter is not in the expected form")
	require.NotEmpty(t, counters)
	for _, c := range counters {
		group, ok := reflect.TypeFor[db.Metrics]().FieldByName(c[1])
		require.True(t, ok, "db.Metrics has no %s", c[1])
		fields := group.Type
		if fields.Kind() == reflect.Array {
			fields = fields.Elem()
		}
		_, ok = fields.FieldByName(c[2])
		require.True(t, ok, "%s has no %s", fields, c[2])
	}
}

// A picture is well-formed XML, has a text alternative, and loads no scripts and no other files.
func TestPicturesStandAlone(t *testing.T) {
	for _, name := range []string{
		"docs/rooms.svg", "docs/write-path.svg", "docs/read-path.svg", "docs/reads.svg",
		"docs/performance-throughput.svg", "docs/performance-cost.svg", "docs/performance-scale.svg",
	} {
		seen := map[string]bool{}
		for d := xml.NewDecoder(strings.NewReader(read(t, name))); ; {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			require.NoError(t, err, name)
			element, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			seen[element.Name.Local] = true
			for _, a := range element.Attr {
				if a.Name.Local == "href" {
					require.True(t, strings.HasPrefix(a.Value, "#"), "%s: a link to %s", name, a.Value)
				}
			}
		}
		require.True(t, seen["title"] && seen["desc"] && seen["style"], "%s needs a title, a desc and a style", name)
		require.False(t, seen["script"] || seen["image"] || seen["foreignObject"], "%s is more than a drawing", name)
		require.Contains(t, read(t, name), "prefers-color-scheme: dark", name)
	}
}
