# Shorthands. The commands themselves are plain Go; each commit passes .ci/run.

.PHONY: test race long fuzz ci checks tour

test: ## the suite
	go test ./...

race: ## the suite under the race detector, which needs a C compiler
	CGO_ENABLED=1 go test -race -short ./...

long: ## 5 million crash states, 10,000 kills, every fault and every damaged bit, values of 1 GiB: some hours on two cores
	COPAL_LONG=1 go test -count=1 -timeout=12h ./...

fuzz: ## each fuzz target in turn, for FUZZTIME, a minute by default
	FUZZTIME=$${FUZZTIME:-1m} .ci/run fuzz

ci: ## the checks that each commit must pass
	.ci/run

checks: ## the longer checks, which take hours: other processors, clients, the image, planted bugs
	.ci/long

tour: ## copal on real data, in under a minute
	go run ./examples/tour
