package docs_test

import (
	"encoding/xml"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

var (
	floorDrawn = regexp.MustCompile(`(?s)<g class="floor" id="floor-(\d+)"(.*?)\n  </g>`)
	roomDrawn  = regexp.MustCompile(`<g class="\w+" transform="([^"]+)">.*<text class="room"[^>]*>(.*)</text>`)
	tag        = regexp.MustCompile(`<[^>]+>`)
)

// columns are the places of a floor.
var columns = []string{
	"translate(48 0)", "translate(160 0)", "translate(272 0)", "translate(384 0)", "translate(496 0)", "translate(608 0)",
	"translate(720 0)", "translate(832 0)",
}

// The picture shows each room of the table once, on its floor, and no two rooms overlap.
func TestRoomsPictureMatchesTheTable(t *testing.T) {
	drawn := map[string]int{}
	for _, floor := range floorDrawn.FindAllStringSubmatch(read(t, "docs/rooms.svg"), -1) {
		n, err := strconv.Atoi(floor[1])
		require.NoError(t, err)
		places := map[string]string{}
		for _, box := range roomDrawn.FindAllStringSubmatch(floor[2], -1) {
			name := tag.ReplaceAllString(box[2], "")
			require.NotContains(t, drawn, name, "drawn twice")
			require.NotContains(t, places, box[1], "%s covers another room of floor %d", name, n)
			places[box[1]] = name
			require.Contains(t, columns, box[1], "%s is not in a column of the picture", name)
			drawn[name] = n
		}
	}
	want := map[string]int{}
	for name, r := range rooms(t) {
		want[name] = r.floor
	}
	require.Equal(t, want, drawn, "docs/rooms.svg differs from the table of rooms; its comment says how to add a room")
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
