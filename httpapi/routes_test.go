package httpapi

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// exchange is a request and its answer.
type exchange struct {
	request, answer string
	headers         []string // that the answer shows
}

func TestExchanges(t *testing.T) {
	for name, list := range exchanges {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			for _, x := range list {
				p.want(x.request, x.answer, x.headers...)
			}
		})
	}
}

var (
	tag      = []string{"Etag"}
	typeOf   = []string{"Content-Type"}
	typeTag  = []string{"Content-Type", "Etag"}
	ranged   = []string{"Content-Range", "Content-Length"}
	replayed = []string{"Idempotency-Replayed"}
)

var exchanges = map[string][]exchange{
	"entries": {
		{"GET /v1/maps/m/a", `404 not-found "the key has no entry"`, nil},
		{"PUT /v1/maps/m/a\nContent-Type: application/json\n\n{\"n\": 1}", `201 Etag="2"`, tag},
		{"GET /v1/maps/m/a", `200 Content-Type=application/json Etag="2" {"n": 1}`, typeTag},
		{"HEAD /v1/maps/m/a", `200 Content-Length=8`, []string{"Content-Length"}},
		{"PUT /v1/maps/m/a\n\n[2]", `204 Etag="3"`, tag},
		{"GET /v1/maps/m/a", `200 Content-Type=application/json Etag="3" [2]`, typeTag},
		{"PUT /v1/maps/m/b\n\nno json", `201 Etag="4"`, tag},
		{"GET /v1/maps/m/b", `200 Content-Type=application/octet-stream Etag="4" no json`, typeTag},
		{"PUT /v1/maps/m/c\nContent-Type: Text/Plain; Charset=UTF-8\n\nhello", `201`, nil},
		{"GET /v1/maps/m/c", `200 Content-Type=text/plain;charset=UTF-8 hello`, typeOf},
		{"PUT /v1/maps/m/c\n\n", `204`, nil},
		{"GET /v1/maps/m/c", `200 Content-Type=application/octet-stream`, typeOf},
		{"PUT /v1/maps/m/j\nContent-Type: application/json\n\n{", `400 bad-request "the body is not JSON: unexpected end of JSON input"`, nil},
		{"PUT /v1/maps/m/j\nContent-Type: application/ld+json\n\n\"\xff\"", `400 bad-request "the body is not JSON: it is not UTF-8"`, nil},
		{"PUT /v1/maps/m/j\nContent-Type: none\n\n1", `415 unsupported-type "Content-Type \"none\" is malformed"`, nil},
		{"PUT /v1/maps/m/j\nContent-Encoding: gzip\n\n1", `415 unsupported-type "a body with Content-Encoding gzip; values are kept as they come, and have none"`, nil},
		{"PUT /v1/maps/m/j\nContent-Range: bytes 0-1/9\n\n1", `400 bad-request "Content-Range with PUT: a value is written as a whole"`, nil},
		{"DELETE /v1/maps/m/b", `204`, nil},
		{"DELETE /v1/maps/m/b", `404 not-found "the key has no entry"`, nil},
		{"GET /v1/nothing", `404 not-found "no route for /v1/nothing; GET / lists the routes"`, nil},
		{"POST /v1/maps/m/a", `405 method-not-allowed "POST is not one of DELETE, GET, HEAD, PATCH, PUT"`, nil},
	},
	"names": {
		{"PUT /v1/maps/a%2Fb%3A/x%2Fy%20%C3%A4%00\n\n1", `201`, nil},
		{"GET /v1/maps/a%2Fb%3A/x%2Fy%20%C3%A4%00", `200 1`, nil},
		{"GET /v1/maps/a%2Fb%3A/?key=x%2Fy%20%C3%A4%00", `200 1`, nil},
		{"PUT /v1/maps/m/?key=\n\n2", `201`, nil},
		{"PUT /v1/maps/m/?key=..\n\n3", `201`, nil},
		{"PUT /v1/maps/m/changes\n\n4", `201`, nil},
		{"GET /v1/maps/m/", `200 2`, nil},
		{"GET /v1/maps/m/?key=..", `200 3`, nil},
		{"GET /v1/maps/m/?key=changes", `200 4`, nil},
		{"DELETE /v1/maps/m/changes", `204`, nil},
		{"GET /v1/maps", `200 {"maps":[{"name":"a/b:","entries":1},{"name":"m","entries":2}]}`, nil},
	},
	"conditions": {
		{"PUT /v1/maps/m/a\nIf-Match: \"7\"\n\n1", `412 precondition-failed "If-Match does not hold: there is no entry"`, nil},
		{"PUT /v1/maps/m/a\nIf-Match: *\n\n1", `412 precondition-failed "If-Match does not hold: there is no entry"`, nil},
		{"PUT /v1/maps/m/a\nIf-None-Match: *\n\n1", `201 Etag="2"`, tag},
		{"PUT /v1/maps/m/a\nIf-None-Match: *\n\n1", `412 precondition-failed "If-None-Match does not hold: the entry has the ETag \"2\""`, nil},
		{"PUT /v1/maps/m/a\nIf-Match: \"1\", \"2\"\n\n2", `204 Etag="3"`, tag},
		{"PUT /v1/maps/m/a\nIf-Match: W/\"3\"\n\n3", `412 precondition-failed "If-Match does not hold: the entry has the ETag \"3\""`, nil},
		{"PUT /v1/maps/m/a\nIf-Match: 3\n\n3", `400 bad-request "If-Match: 3 is not an entity tag; one is \"17\", in double quotes"`, nil},
		{"GET /v1/maps/m/a\nIf-None-Match: W/\"3\"", `304 Content-Type= Etag="3"`, typeTag},
		{"GET /v1/maps/m/a\nIf-None-Match: \"2\"", `200 2`, nil},
		{"GET /v1/maps/m/a\nIf-Match: \"2\"", `412 precondition-failed "If-Match does not hold: the entry has the ETag \"3\""`, nil},
		{"PATCH /v1/maps/m/a\nIf-Match: \"3\"\n\n4", `200 Etag="4" 4`, tag},
		{"DELETE /v1/maps/m/a\nIf-Match: \"3\"", `412 precondition-failed "If-Match does not hold: the entry has the ETag \"4\""`, nil},
		{"DELETE /v1/maps/m/a\nIf-Match: \"4\"", `204`, nil},
		{"DELETE /v1/maps/m/a\nIf-Match: \"4\"", `412 precondition-failed "If-Match does not hold: there is no entry"`, nil},
	},
	"deadlines": {
		{"PUT /v1/maps/m/a\nCopal-TTL: 0\n\n1", `400 bad-request "Copal-TTL is seconds, or a duration such as 1h30m, of at most a hundred years, or none; it is not \"0\""`, nil},
		{"PUT /v1/maps/m/a\nCopal-Expires: 2001-02-03T04:05:06Z\n\n1", `400 bad-request "Copal-Expires has passed: 2001-02-03T04:05:06Z"`, nil},
		{"PUT /v1/maps/m/a\nCopal-Expires: soon\n\n1", `400 bad-request "Copal-Expires is a time such as 2030-01-02T15:04:05Z, or none, and not \"soon\""`, nil},
		{"PUT /v1/maps/m/a\nCopal-Expires: 2100-02-03T04:05:06.7Z\n\n1", `201`, nil},
		{"GET /v1/maps/m/a", `200 Copal-Expires=2100-02-03T04:05:06.700Z 1`, []string{"Copal-Expires"}},
		{"PATCH /v1/maps/m/a\n\n{\"n\":2}", `200 {"n":2}`, nil},
		{"GET /v1/maps/m/a", `200 Copal-Expires=2100-02-03T04:05:06.700Z {"n":2}`, []string{"Copal-Expires"}},
		{"PATCH /v1/maps/m/a\nCopal-TTL: none", `204`, nil},
		{"GET /v1/maps/m/a", `200 Copal-Expires= {"n":2}`, []string{"Copal-Expires"}},
		{"PATCH /v1/maps/m/a", `400 bad-request "an empty patch; a deadline alone is changed by Copal-TTL or Copal-Expires"`, nil},
		{"PATCH /v1/maps/m/b\nCopal-TTL: 1h", `404 not-found "the key has no entry"`, nil},
		{"PUT /v1/maps/m/a\nCopal-Durability: paper\n\n1", `400 bad-request "Copal-Durability is async, write or fsync, and not \"paper\""`, nil},
		{"PUT /v1/maps/m/a\nCopal-Durability: fsync\n\n1", `204`, nil},
	},
	"patches": {
		{"PATCH /v1/maps/m/a\nContent-Type: application/merge-patch+json\n\n{\"a\":{\"b\":1.50,\"c\":null}}", `200 {"a":{"b":1.50}}`, nil},
		{"PATCH /v1/maps/m/a\n\n{\"z\":1e2,\"a\":{\"d\":[1, 2]}}", `200 {"a":{"b":1.50,"d":[1, 2]},"z":1e2}`, nil},
		{"PATCH /v1/maps/m/a\n\n{\"a\":null}", `200 {"z":1e2}`, nil},
		{"PATCH /v1/maps/m/a\nContent-Type: application/json-patch+json\n\n[]", `415 unsupported-type "a patch of type application/json-patch+json; application/merge-patch+json is taken"`, nil},
		{"PATCH /v1/maps/m/a\n\n{\"\\ud800\":1}", `400 bad-request "a JSON object: the escape \"\\\\ud800\" in a string"`, nil},
		{"PUT /v1/maps/m/t\n\ntext", `201`, nil},
		{"PATCH /v1/maps/m/t\n\n{}", `409 conflict "the value is not JSON, so a merge patch cannot change it"`, nil},
	},
	"writes that change nothing": {
		{"PUT /v1/maps/m/a\nContent-Type: application/json\nCopal-Expires: 2100-02-03T04:05:06.7Z\n\n{\"n\": 1, \"s\":\"a \\\" b\"}", `201 Etag="2"`, tag},
		{"PATCH /v1/maps/m/a\n\n{}", `200 Etag="2" {"n": 1, "s":"a \" b"}`, tag},
		{"PATCH /v1/maps/m/a\nIf-Match: \"2\"\n\n{\"n\":1,\"o\":null}", `200 Etag="2" {"n": 1, "s":"a \" b"}`, tag},
		{"PATCH /v1/maps/m/a\nCopal-Expires: 2100-02-03T04:05:06.6995Z\n\n{\"s\":\"a \\\" b\"}", `200 Etag="2" {"n": 1, "s":"a \" b"}`, tag},
		{"PATCH /v1/maps/m/a\nCopal-Expires: 2100-02-03T04:05:06.7Z", `204 Etag="2"`, tag},
		{"POST /v1/tx\n\n{\"operations\":[{\"op\":\"patch\",\"map\":\"m\",\"key\":\"a\",\"value\":{\"n\":1}},{\"op\":\"patch\",\"map\":\"m\",\"key\":\"a\",\"expires\":\"2100-02-03T04:05:06.7Z\"}]}", `200 {"results":[{"status":200,"value":{"n": 1, "s":"a \" b"}},{"status":204}]}`, nil},
		{"GET /v1/maps/m/a", `200 Etag="2" {"n": 1, "s":"a \" b"}`, tag},
		{"PATCH /v1/maps/m/a\n\n{\"s\":\"a  \\\" b\"}", `200 Etag="3" {"n":1,"s":"a  \" b"}`, tag},
		{"PATCH /v1/maps/m/a\nCopal-TTL: none", `204 Etag="4"`, tag},
		{"PATCH /v1/maps/m/a\nCopal-TTL: none", `204 Etag="4"`, tag},
		{"PATCH /v1/maps/m/a\nCopal-TTL: none\n\n{}", `200 Etag="4" {"n":1,"s":"a  \" b"}`, tag},
		{"PUT /v1/maps/m/n\n\n 5", `201 Etag="5"`, tag},
		{"POST /v1/maps/m/n/add?by=0", `200 Etag="5" 5`, tag},
		{"POST /v1/maps/m/n/add?by=0\nIdempotency-Key: k", `200 Etag="5" 5`, tag},
		{"GET /v1/maps/m/n", `200 Etag="5"  5`, tag},
		{"PUT /v1/maps/m/t\nContent-Type: text/plain\n\n5", `201`, nil},
		{"PATCH /v1/maps/m/t\n\n5", `200 5`, nil},
		{"GET /v1/maps/m/t", `200 Content-Type=application/json 5`, typeOf},
		{"DELETE /v1/maps/m/none", `404 not-found "the key has no entry"`, nil},
		{"DELETE /items/none", `404 not-found "the key has no entry"`, nil},
		{"DELETE /items", `200 {"status":"OK"}`, nil},
		{"DELETE /v1/maps/o?all=true", `204`, nil},
		{"GET /v1/maps/none", `200 {"seq":9,"entries":[]}`, nil},
	},
	"counters": {
		{"POST /v1/maps/m/n/add", `200 1`, nil},
		{"POST /v1/maps/m/n/add?by=-43", `200 -42`, nil},
		{"POST /v1/maps/m/n/add?by=9223372036854775807", `200 9223372036854775765`, nil},
		{"POST /v1/maps/m/n/add?by=43", `409 conflict "9223372036854775765 plus 43 exceeds 64 bits"`, nil},
		{"POST /v1/maps/m/n/add?by=x", `400 bad-request "by=x is not a whole number of 64 bits"`, nil},
		{"PUT /v1/maps/m/n\n\n\"x\"", `204`, nil},
		{"POST /v1/maps/m/n/add", `409 conflict "the value is not a whole number of 64 bits"`, nil},
	},
	"ranges": {
		{"PUT /v1/maps/m/a\nContent-Type: text/plain\n\n0123456789", `201`, nil},
		{"GET /v1/maps/m/a\nRange: bytes=2-4", `206 Content-Range=bytes 2-4/10 Content-Length=3 234`, ranged},
		{"GET /v1/maps/m/a\nRange: bytes=8-", `206 Content-Range=bytes 8-9/10 Content-Length=2 89`, ranged},
		{"GET /v1/maps/m/a\nRange: bytes=-3", `206 Content-Range=bytes 7-9/10 Content-Length=3 789`, ranged},
		{"GET /v1/maps/m/a\nRange: bytes=0-99999999999999999999", `206 Content-Range=bytes 0-9/10 Content-Length=10 0123456789`, ranged},
		{"GET /v1/maps/m/a\nRange: bytes=10-", `416 range-not-satisfiable "the value has 10 bytes"`, nil},
		{"GET /v1/maps/m/a\nRange: bytes=4-2", `200 0123456789`, nil},
		{"GET /v1/maps/m/a\nRange: bytes=0-1,3-4", `200 0123456789`, nil},
		{"GET /v1/maps/m/a\nRange: bytes=2-4\nIf-Range: \"2\"", `206 234`, nil},
		{"GET /v1/maps/m/a\nRange: bytes=2-4\nIf-Range: \"1\"", `200 0123456789`, nil},
	},
	"lists": {
		{"PUT /v1/maps/m/a\n\n{\"n\":1,\n\"o\":{\"p\":\"x\"}}", `201`, nil},
		{"PUT /v1/maps/m/ab\n\n{\"n\":2.50}", `201`, nil},
		{"PUT /v1/maps/m/b\nCopal-Expires: 2100-02-03T04:05:06Z\nContent-Type: text/plain\n\nhello", `201`, nil},
		{"PUT /v1/maps/m/%ff\n\n\xff\xfe\xfd\xfc", `201`, nil},
		{"GET /v1/maps/m?limit=0", `400 bad-request "limit is from 1 to 10000, and not \"0\""`, nil},
		{"GET /v1/maps/m?cursor=%25", `400 bad-request "the cursor is not from a page"`, nil},
		{"GET /v1/maps/m?reverse=1", `400 bad-request "reverse is true or false, and not \"1\""`, nil},
		{"GET /v1/maps/m?where=n", `400 bad-request "where=n is not a field, comparison and value, such as Age\u003e=18"`, nil},
		{"DELETE /v1/maps/m", `400 bad-request "DELETE of a map needs prefix, from or to, or all=true"`, nil},
		{"DELETE /v1/maps/m?prefix=a", `204`, nil},
		{"GET /v1/maps/m?at=x", `400 bad-request "at=x is neither a sequence number nor a time such as 1970-01-01T00:00:00Z"`, nil},
		{"GET /v1/maps/m?at=1000", `400 bad-request "at: there is no record 1000 yet, the last one is 6"`, nil},
		{"GET /v1/maps/m/a", `404 not-found "the key has no entry"`, nil},
		{"GET /v1/maps/m/a?at=4", "200 {\"n\":1,\n\"o\":{\"p\":\"x\"}}", nil},
		{"DELETE /v1/maps/m?all=false", `400 bad-request "DELETE of a map needs prefix, from or to, or all=true"`, nil},
		{"DELETE /v1/maps/m?all", `400 bad-request "all is true or false"`, nil},
		{"DELETE /v1/maps/m?all=true", `204`, nil},
		{"GET /v1/maps/none", `200 {"seq":7,"entries":[]}`, nil},
	},
	"paths": {
		{"PUT /v1/maps/m\n\n1", `405 method-not-allowed "PUT is not one of DELETE, GET, HEAD, POST"`, nil},
		{"PUT /v1/maps/m//a\n\n1", `404 not-found "no route for /v1/maps/m//a; write / within a key as %2F"`, nil},
		{"PUT /v1/maps/m/b/../a\n\n1", `404 not-found "no route for /v1/maps/m/b/../a; write / within a key as %2F"`, nil},
		{"DELETE /v1/maps/./m\n\n1", `404 not-found "no route for /v1/maps/./m; write / within a key as %2F"`, nil},
		{"GET /items//", `404 not-found "no route for /items//; write / within a key as %2F"`, nil},
		{"DELETE /v1/tx/", `404 not-found "no route for /v1/tx/; GET / lists the routes"`, nil},
		{"PUT /v1/maps/m/%2F%2F..%2F.\n\n1", `201`, nil},
		{"PUT /v1/maps/m/%2E%2E\n\n2", `201`, nil},
		{"GET /v1/maps/m/?key=..", `200 2`, nil},
	},
	"parts": {
		{"PUT /v1/maps/m/a\nContent-Type: text/plain\n\n0123456789", `201`, nil},
		{"HEAD /v1/maps/m/a\nRange: bytes=2-3", `200 Content-Range= Content-Length=10`, ranged},
		{"HEAD /v1/maps/m/a\nRange: bytes=20-", `200 Content-Range= Content-Length=10`, ranged},
		{"GET /v1/maps/m?limit=1\nAccept: application/x-ndjson", `400 bad-request "limit is for pages; lines have the whole selection"`, nil},
	},
	"parameters": {
		{"PUT /v1/maps/m/b\n\n1", `201`, nil},
		{"DELETE /v1/maps/m?from=d;x&to=z", `400 bad-request "the query: invalid semicolon separator in query"`, nil},
		{"DELETE /v1/maps/m?prefix=%zz&to=z", `400 bad-request "the query: invalid URL escape \"%zz\""`, nil},
		{"DELETE /v1/maps/m?from=a&too=b", `400 bad-request "the route takes no ?too="`, nil},
		{"DELETE /v1/maps/m?from=a&limit=1", `400 bad-request "the route takes no ?limit="`, nil},
		{"DELETE /v1/maps/m?to=c&to=a", `400 bad-request "?to= occurs twice"`, nil},
		{"GET /v1/maps/m?where=n=1&where=n=2", `200 {"seq":2,"entries":[]}`, nil},
		{"PUT /v1/maps/m/?kee=a\n\n1", `400 bad-request "the route takes no ?kee="`, nil},
		{"PUT /v1/maps/m/b?key=a\n\n1", `400 bad-request "the path has the key, and ?key= has one, too"`, nil},
		{"DELETE /items/b?id=a", `400 bad-request "the path has the key, and ?id= has one, too"`, nil},
		{"GET /v1/changes?prefix=a", `400 bad-request "the route takes no ?prefix="`, nil},
		{"GET /v1/nothing?x=y", `404 not-found "no route for /v1/nothing; GET / lists the routes"`, nil},
		{"GET /v1/maps/m/b", `200 1`, nil},
	},
	"headers": {
		{"PUT /items\n\n{\"id\":\"a\",\"value\":1}", `201 {"status":"OK"}`, nil},
		{"PUT /items\nIf-None-Match: *\n\n{\"id\":\"a\",\"value\":2}", `400 bad-request "the route takes no If-None-Match"`, nil},
		{"DELETE /items/a\nIf-Match: \"1\"", `400 bad-request "the route takes no If-Match"`, nil},
		{"DELETE /v1/maps/items?all=true\nIf-Match: \"1\"", `400 bad-request "the route takes no If-Match"`, nil},
		{"DELETE /v1/maps/items/a\nCopal-TTL: 60", `400 bad-request "the route takes no Copal-TTL"`, nil},
		{"PUT /items\nCopal-Expires: none\n\n{\"id\":\"a\",\"value\":2}", `400 bad-request "the route takes no Copal-Expires"`, nil},
		{"POST /v1/maps/items\nIdempotency-Key: k\n\n", `400 bad-request "the route takes no Idempotency-Key"`, nil},
		{"GET /items/a\nIf-None-Match: \"2\"", `200 {"id":"a","value":1,"age":0}`, nil},
	},
	"transactions": {
		{"POST /v1/tx\n\n{\"operations\":[{\"op\":\"put\",\"map\":\"m\",\"key\":\"a\",\"value\":{\"n\":1}},{\"op\":\"put\",\"map\":\"o\",\"key\":{\"base64\":\"/w==\"},\"text\":\"hi\",\"ttl\":60},{\"op\":\"get\",\"map\":\"m\",\"key\":\"a\"}]}",
			`200 {"results":[{"status":201},{"status":201},{"status":200,"value":{"n":1}}]}`, nil},
		{"GET /v1/maps/o/%ff", `200 Content-Type=application/octet-stream hi`, typeOf},
		{"POST /v1/tx\n\n{\"operations\":[{\"op\":\"add\",\"map\":\"m\",\"key\":\"n\",\"by\":3},{\"op\":\"patch\",\"map\":\"m\",\"key\":\"a\",\"value\":{\"n\":2}},{\"op\":\"delete\",\"map\":\"o\",\"key\":\"none\"}]}",
			`404 not-found "the key has no entry","operation":2`, nil},
		{"GET /v1/maps/m/n", `404 not-found "the key has no entry"`, nil},
		{"POST /v1/tx\n\n{\"operations\":[{\"op\":\"put\",\"map\":\"m\",\"key\":\"a\",\"value\":3,\"if_match\":\"\\\"1\\\"\"}]}",
			`412 precondition-failed "If-Match does not hold: the entry has the ETag \"3\"","operation":0`, nil},
		{"POST /v1/tx\n\n{\"operations\":[{\"op\":\"get\",\"map\":\"m\",\"key\":\"a\"},{\"op\":\"patch\",\"map\":\"m\",\"key\":\"a\",\"ttl\":\"1h\"}]}", `200 {"results":[{"status":200,"etag":"\"3\"","value":{"n":1}},{"status":204}]}`, nil},
		{"POST /v1/tx\n\n{}", `400 bad-request "a transaction is {\"operations\":[…]}, and has no other fields"`, nil},
		{"POST /v1/tx\n\n{\"operations\":[]}", `400 bad-request "\"operations\" is a list of at least one"`, nil},
		{"POST /v1/tx\n\n{\"operations\":[{\"op\":\"set\",\"map\":\"m\",\"key\":\"a\"}]}", `400 bad-request "\"op\" is get, put, patch, add or delete, and not \"set\"","operation":0`, nil},
		{"POST /v1/tx\n\n{\"operations\":[{\"op\":\"get\",\"map\":\"m\",\"key\":\"a\",\"ttl\":1}]}", `400 bad-request "get has no field \"ttl\"","operation":0`, nil},
		{"POST /v1/tx\n\n{\"operations\":[{\"op\":\"put\",\"map\":\"m\",\"key\":\"a\"}]}", `400 bad-request "put has one of \"value\", \"text\" and \"base64\"","operation":0`, nil},
		{"POST /v1/tx\n\n{\"operations\":[{\"op\":\"get\",\"map\":\"m\"}]}", `400 bad-request "there is no \"key\"","operation":0`, nil},
		{"POST /v1/tx\n\n{\"operations\":[{\"op\":\"put\",\"map\":\"m\",\"key\":\"t\",\"text\":\"x\",\"content\":\"Text/HTML; Charset=utf-8\"}]}", `200 {"results":[{"status":201}]}`, nil},
		{"GET /v1/maps/m/t", `200 Content-Type=text/html;charset=utf-8 x`, typeOf},
		{"POST /v1/tx\n\n{\"operations\":[{\"op\":\"put\",\"map\":\"m\",\"key\":\"t\",\"text\":\"x\",\"content\":\"Application/JSON\"}]}",
			`400 bad-request "the body is not JSON: invalid character 'x' looking for beginning of value","operation":0`, nil},
		{"POST /v1/tx\n\n{\"operations\":[{\"op\":\"put\",\"map\":\"m\",\"key\":\"t\",\"text\":\"x\",\"content\":\"none\"}]}", `415 unsupported-type "Content-Type \"none\" is malformed","operation":0`, nil},
		{"POST /v1/tx\nContent-Type: text/plain\n\n{}", `415 unsupported-type "a transaction of type text/plain; application/json is taken"`, nil},
	},
	"again, of entries that are something else": {
		{"PUT /v1/maps/m/n\n\nnull", `201`, nil},
		{"POST /v1/maps/m/n/add", `409 conflict "the value is not a whole number of 64 bits"`, nil},
		{"PUT /v1/maps/http:replies/k\n\n{\"status\":1}", `201`, nil},
		{"PUT /v1/maps/m/n\nIdempotency-Key: k\n\n1", `422 idempotency-key-reused "the key was used for another request within the last 24h0m0s"`, nil},
		{"PUT /v1/maps/http:replies/k\n\nno", `204`, nil},
		{"PUT /v1/maps/m/n\nIdempotency-Key: k\n\n1", `409 conflict "the entry \"http%3areplies:k\" is not an answer"`, nil},
	},
	"again": {
		{"POST /v1/maps/m/n/add?by=5\nIdempotency-Key: k1", `200 Idempotency-Replayed= 5`, replayed},
		{"POST /v1/maps/m/n/add?by=5\nIdempotency-Key: k1", `200 Idempotency-Replayed=true 5`, replayed},
		{"POST /v1/maps/m/n/add?by=6\nIdempotency-Key: k1", `422 idempotency-key-reused "the key was used for another request within the last 24h0m0s"`, nil},
		{"PUT /v1/maps/m/l\nIdempotency-Key: life\nCopal-TTL: 60\n\n1", `201`, nil},
		{"PUT /v1/maps/m/l\nIdempotency-Key: life\nCopal-TTL: 60\n\n1", `201 Idempotency-Replayed=true`, replayed},
		{"PUT /v1/maps/m/l\nIdempotency-Key: life\nCopal-TTL: 3600\n\n1", `422 idempotency-key-reused "the key was used for another request within the last 24h0m0s"`, nil},
		{"PUT /v1/maps/m/x\nIdempotency-Key: k2\nIf-None-Match: *\n\n1", `201`, nil},
		{"PUT /v1/maps/m/x\nIdempotency-Key: k2\nIf-None-Match: *\n\n1", `201 Idempotency-Replayed=true`, replayed},
		{"POST /v1/tx\nIdempotency-Key: k3\n\n{\"operations\":[{\"op\":\"add\",\"map\":\"m\",\"key\":\"n\"}]}", `200 {"results":[{"status":200,"value":6}]}`, nil},
		{"POST /v1/tx\nIdempotency-Key: k3\n\n{\"operations\":[{\"op\":\"add\",\"map\":\"m\",\"key\":\"n\"}]}", `200 Idempotency-Replayed=true {"results":[{"status":200,"value":6}]}`, replayed},
		{"GET /v1/maps/m/n", `200 6`, nil},
	},
	"bulks that cannot be": {
		{"POST /v1/maps/items\n\n{\"key\":\"a\",\"value\":1}\n{\"key\":\"b\",\"text\":\"no\",\"content\":\"Application/JSON\"}\n{\"key\":\"c\",\"value\":1,\"content\":\"a b\"}\n{\"key\":\"d\",\"value\":1,\"expires\":9223372036854775807}\n{\"key\":\"e\",\"value\":2,\"content\":\"Application/JSON\"}",
			`200 {"written":2,"expired":0,"failed":3,"errors":[{"line":2,"detail":"the body is not JSON: invalid character 'o' in literal null (expecting 'u')"},{"line":3,"detail":"Content-Type \"a b\" is malformed"},{"line":4,"detail":"a deadline beyond the last possible one"}]}`, nil},
		{"GET /items", "200 [{\"id\":\"a\",\"value\":1,\"age\":0},\n{\"id\":\"e\",\"value\":2,\"age\":0}]", nil},
		{"POST /v1/maps/m\n\n{\"key\":\"a\",\"value\":1}\n{\"copal\":\"export\",\"version\":9}", `400 bad-request "line 2, at byte 22: version 9: it was written by a newer version; entries written before it: 1"`, nil},
		{"GET /v1/maps/m/a", `200 1`, nil},
	},
	"bulks": {
		{"POST /v1/maps/m\nContent-Type: application/x-ndjson\n\n{\"key\":\"a\",\"value\":1}\n{\"key\":\"b\"}\nno\n{\"key\":\"c\",\"text\":\"x\",\"content\":\"text/plain\"}\n",
			`200 {"written":2,"expired":0,"failed":2,"errors":[{"line":2,"detail":"one of value, text and base64 must be there, and one alone"},{"line":3,"detail":"it is not a JSON object"}]}`, nil},
		{"GET /v1/maps/m/c", `200 Content-Type=text/plain x`, typeOf},
		{"POST /v1/maps/m\n\n{\"key\":\"c\",\"value\":1,\"expires\":\"2000-01-01T00:00:00Z\"}\n{\"key\":\"d\",\"value\":1}", `200 {"written":1,"expired":1,"failed":0,"errors":[]}`, nil},
		{"GET /v1/maps/m/c", `200 x`, nil},
		{"POST /v1/maps/m\nContent-Type: text/csv\n\na", `415 unsupported-type "a bulk of type text/csv; application/x-ndjson is taken"`, nil},
	},
	"items": {
		{"PUT /items\n\n{\"id\":\"a\",\"value\":null}", `201 Content-Type=application/json {"status":"OK"}`, typeOf},
		{"GET /items/a", `200 {"id":"a","value":null,"age":0}`, nil},
		{"PUT /items\nContent-Type: application/json\n\n{\"value\":{\"x\": [1]},\"id\":\"b/ä \\\"\"}", `201 {"status":"OK"}`, nil},
		{"GET /items/b%2F%C3%A4%20%22", `200 {"id":"b/ä \"","value":{"x": [1]},"age":0}`, nil},
		{"GET /items", "200 [{\"id\":\"a\",\"value\":null,\"age\":0},\n{\"id\":\"b/ä \\\"\",\"value\":{\"x\": [1]},\"age\":0}]", nil},
		{"PUT /items\n\n{\"id\":\"\",\"value\":1}", `201 {"status":"OK"}`, nil},
		{"GET /items/", `200 {"id":"","value":1,"age":0}`, nil},
		{"PUT /items\n\n{\"value\":1}", `400 bad-request "there is no \"id\""`, nil},
		{"PUT /items\n\n{\"id\":\"a\"}", `400 bad-request "there is no \"value\""`, nil},
		{"PUT /items\n\n{\"ID\":\"a\",\"value\":1}", `400 bad-request "there is no \"id\""`, nil},
		{"PUT /items\n\n{\"id\":\"a\",\"value\":1,\"value\":2}", `400 bad-request "\"value\" occurs twice"`, nil},
		{"PUT /items\nCopal-Durability: write\nCopal-Durability: fsync\n\n{\"id\":\"a\",\"value\":1}", `400 bad-request "Copal-Durability occurs twice"`, nil},
		{"PUT /v1/maps/twice/a\nCopal-TTL: 1\nCopal-TTL: 100\n\n1", `400 bad-request "Copal-Ttl occurs twice"`, nil},
		{"GET /v1/changes\nLast-Event-ID: 1\nLast-Event-ID: 2", `400 bad-request "Last-Event-Id occurs twice"`, nil},
		{"PUT /items\n\n[]", `400 bad-request "an item is {\"id\":…,\"value\":…}"`, nil},
		{"PUT /items\n\n{\"id\":\"a\",\"value\":1", `400 bad-request "the body is not JSON: unexpected end of JSON input"`, nil},
		{"PUT /items\n\n{\"id\":5,\"value\":1}", `422 does-not-fit "\"id\": \"5\" is not a string","field":"id"`, nil},
		{"PUT /items\nContent-Type: text/plain\n\n{\"id\":\"a\",\"value\":1}", `415 unsupported-type "an item of type text/plain; application/json is taken"`, nil},
		{"GET /items/none", `404 not-found "the key has no entry"`, nil},
		{"DELETE /items/a", `200 {"status":"OK"}`, nil},
		{"DELETE /items/a", `404 not-found "the key has no entry"`, nil},
		{"DELETE /items", `200 {"status":"OK"}`, nil},
		{"GET /items", `200 []`, nil},
		{"POST /items", `405 method-not-allowed "POST is not one of DELETE, GET, HEAD, PUT"`, nil},
	},
}

// Of requests with one key that come at the same time one is carried out, and all are answered alike.
func TestOnceAtTheSameTime(t *testing.T) {
	p := newPeer(t)
	for round := range 20 {
		answers := make([]string, 8)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() { answers[i] = p.do(fmt.Sprintf("POST /v1/maps/m/n%d/add\nIdempotency-Key: %d", round, round)) })
		}
		all.Wait()
		for _, got := range answers {
			if got != "200 1" {
				t.Errorf("round %d: %s", round, got)
			}
		}
		p.want(fmt.Sprintf("GET /v1/maps/m/n%d", round), "200 1")
	}
}

func TestAllow(t *testing.T) {
	if got := newPeer(t).do("POST /items/a", "Allow"); !strings.HasPrefix(got, "405 Allow=DELETE, GET, HEAD {") {
		t.Error(got)
	}
}

// Each row of the table is whole, and each method of a path is one row.
func TestRoutes(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range routes {
		name := r.method + " " + r.path
		if seen[name] || r.does == "" || r.group == "" || r.run == nil || len(r.status) == 0 || !strings.HasSuffix(r.does, ".") {
			t.Errorf("%s occurs twice, or lacks something", name)
		}
		seen[name] = true
	}
}

// A value that is longer than memory holds is written under the same conditions as a short one.
func TestConditionsOfLongValues(t *testing.T) {
	p := newPeer(t)
	long := func(letter string) string {
		return "\nContent-Type: text/plain\n\n" + strings.Repeat(letter, 2*heldBytes)
	}
	now := func(letter string) {
		t.Helper()
		if got := p.do("GET /v1/maps/m/a"); got != "200 "+strings.Repeat(letter, 2*heldBytes) {
			t.Errorf("the entry is %.30q", got)
		}
	}
	p.want("PUT /v1/maps/m/a\nIf-Match: *"+long("a"), `412 precondition-failed "If-Match does not hold: there is no entry"`)
	p.want("GET /v1/maps/m/a", `404 not-found "the key has no entry"`)
	p.want("PUT /v1/maps/m/a\nIf-None-Match: *"+long("b"), "201")
	now("b")
	is, _ := strings.CutPrefix(p.do("HEAD /v1/maps/m/a", "Etag"), "200 Etag=")
	is = strings.TrimSpace(is)
	p.want("PUT /v1/maps/m/a\nIf-None-Match: *"+long("c"), `412 precondition-failed "If-None-Match does not hold: the entry has the ETag `+strings.ReplaceAll(is, `"`, `\"`)+`"`)
	p.want("PUT /v1/maps/m/a\nIf-Match: \"1\""+long("c"), `412 precondition-failed "If-Match does not hold: the entry has the ETag `+strings.ReplaceAll(is, `"`, `\"`)+`"`)
	now("b")
	p.want("PUT /v1/maps/m/a\nIf-Match: "+is+long("d"), "204")
	now("d")
}
