package access

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/sparing"
)

// guessing has users with a password and a made token, and a log.
func guessing(t *testing.T, f func(t *testing.T, made string, log *bytes.Buffer, try func(address, token string) (time.Duration, error), u *Users)) {
	synctest.Test(t, func(t *testing.T) {
		made := NewToken()
		u, err := New(Password("secret"), User{Name: "app", Tokens: []string{Hash(made)}, Read: []string{All}})
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		f(t, made, &log, func(address, token string) (time.Duration, error) {
			began := time.Now()
			_, err := u.Admit(t.Context(), logger, address, "", token)
			return time.Since(began), err
		}, u)
	})
}

func TestWrongTokensAreSlowed(t *testing.T) {
	guessing(t, func(t *testing.T, made string, _ *bytes.Buffer, try func(address, token string) (time.Duration, error), _ *Users) {
		const attacker, other = "192.0.2.1:1000", "192.0.2.2:1000"
		for n := range freeGuesses {
			if took, err := try(attacker, fmt.Sprint(n)); took != 0 || err != ErrWrongToken {
				t.Errorf("wrong token %d: %v after %v", n, err, took)
			}
		}
		for n := range 3 { // one after the other, each from another port
			if took, err := try(fmt.Sprintf("192.0.2.1:%d", 2000+n), "x"); took != guessEvery || err != ErrWrongToken {
				t.Errorf("a further wrong token: %v after %v", err, took)
			}
		}
		for _, right := range []string{"secret", made} {
			if took, err := try(attacker, right); took != 0 || err != nil {
				t.Errorf("a right token of the same address: %v after %v", err, took)
			}
		}
		if took, err := try(other, "x"); took != 0 || err != ErrWrongToken {
			t.Errorf("a wrong token of another address: %v after %v", err, took)
		}
		time.Sleep(freeGuesses * guessEvery)
		if took, _ := try(attacker, "x"); took != 0 {
			t.Errorf("after a while a wrong token waits for %v", took)
		}
	})
}

// However many clients guess at a time, few of their answers wait, and further guesses are not
// examined.
func TestFewAnswersWait(t *testing.T) {
	guessing(t, func(t *testing.T, made string, _ *bytes.Buffer, try func(address, token string) (time.Duration, error), _ *Users) {
		results := make(chan error, 1000)
		for n := range cap(results) {
			go func() {
				_, err := try(fmt.Sprintf("[2001:db8::%x]:1", n), fmt.Sprint(n)) // of one /64
				results <- err
			}()
		}
		synctest.Wait()
		for range cap(results) - mostWaiting {
			<-results
		}
		if took, err := try("[2001:db8::ffff]:1", "secret"); took != 0 || err != ErrTooManyTokens {
			t.Errorf("a password amid guesses of its network: %v after %v", err, took)
		}
		if took, err := try("[2001:db8::ffff]:1", made); took != 0 || err != nil {
			t.Errorf("a made token amid guesses of its network: %v after %v", err, took)
		}
		if took, err := try("[2001:db8::ffff]:1", NewToken()); took != 0 || err != ErrWrongToken {
			t.Errorf("a wrong made token: %v after %v", err, took)
		}
		if took, err := try("[2001:db8:0:1::1]:1", "secret"); took != 0 || err != nil {
			t.Errorf("a password from another network: %v after %v", err, took)
		}
		began := time.Now()
		for range mostWaiting {
			if err := <-results; err != ErrWrongToken {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > mostWaiting*guessEvery {
			t.Errorf("an answer took %v", took)
		}
		if took, err := try("[2001:db8::ffff]:1", "secret"); took != 0 || err != nil {
			t.Errorf("a password afterwards: %v after %v", err, took)
		}
	})
}

func TestGuessesTakeLittleMemory(t *testing.T) {
	guessing(t, func(t *testing.T, _ string, _ *bytes.Buffer, try func(address, token string) (time.Duration, error), u *Users) {
		slowed := 0
		for n := range 2 * mostOrigins {
			took, err := try(fmt.Sprintf("10.%d.%d.%d:1", n>>16, n>>8&0xff, n&0xff), "x")
			if took > 0 || err == ErrTooManyTokens {
				slowed++
			}
			if slowed > 20 {
				break
			}
		}
		if len(u.guesses.paid) > mostOrigins+1 || slowed == 0 {
			t.Errorf("%d addresses are known, %d guesses were slowed", len(u.guesses.paid), slowed)
		}
		time.Sleep(time.Hour)
		for n := range mostOrigins {
			if took, err := try(fmt.Sprintf("192.%d.%d.1:1", n>>8, n&0xff), "x"); took > 0 || err != ErrWrongToken {
				t.Fatalf("an hour later address %d waits for %v: %v", n, took, err)
			}
		}
	})
}

// A client that leaves is not waited for.
func TestAnswersEndWithTheirClient(t *testing.T) {
	guessing(t, func(t *testing.T, _ string, _ *bytes.Buffer, try func(address, token string) (time.Duration, error), u *Users) {
		for range freeGuesses {
			try("@", "x")
		}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		began := time.Now()
		if _, err := u.Admit(ctx, slog.New(slog.DiscardHandler), "", "", "x"); err != ErrWrongToken || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestGuessesAreLogged(t *testing.T) {
	guessing(t, func(t *testing.T, _ string, log *bytes.Buffer, try func(address, token string) (time.Duration, error), _ *Users) {
		for range 5 {
			try("192.0.2.1:1", "guess")
		}
		time.Sleep(sparing.Every)
		try("192.0.2.1:1", "guess")
		lines := strings.SplitAfter(log.String(), "\n")
		if len(lines) != 3 || !strings.Contains(lines[0], "more=0") || !strings.Contains(lines[1], "more=4") || strings.Contains(log.String(), "guess") {
			t.Errorf("%q", lines)
		}
	})
}
