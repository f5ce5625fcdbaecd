# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced: a private apt state, which needs neither root nor a change to this machine's apt. Packages
# come from the mirror of the machine's own Debian source (or of HONE_DEBIAN_MIRROR), their signed
# index is checked with Debian's keyring. The caller has `say` and `die`.

keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# Sets `mirror`.
find_mirror() {
  [ -r $keyring ] || die "$keyring is missing (apt-get install debian-archive-keyring)"
  # The main archive among this machine's sources: not -security, -updates or -backports.
  # shellcheck disable=SC2016  # apt's own variables
  mirror=${HONE_DEBIAN_MIRROR:-$(apt-get indextargets --no-release-info \
    --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2> /dev/null |
    awk '$1 !~ /security|updates|backports/ && $2 == "main" && $3 ~ /\/debian\/?$/ { print $3; exit }')}
  [ -n "$mirror" ] || die "no Debian mirror in this machine's apt sources; set HONE_DEBIAN_MIRROR to one"
}

# apt works on the state in a folder from now on, and knows one suite's packages of one kind.
use_suite() {  # folder, deb or deb-src, suite
  export APT_CONFIG="$1/apt.conf"
  [ ! -d "$1" ] || return 0
  mkdir -p "$1/empty" "$1/lists/partial" "$1/cache/archives/partial"
  echo "$2 [signed-by=$keyring] $mirror $3 main" > "$1/sources.list"
  cat > "$APT_CONFIG" << CONF
Dir::Etc::SourceList "$1/sources.list";
Dir::Etc::SourceParts "$1/empty";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "$1/empty";
Dir::State "$1";
Dir::State::Lists "$1/lists";
Dir::Cache "$1/cache";
Acquire::Languages "none";
# A mirror that stands still is past its date and still has what is pinned; signatures are checked.
Acquire::Check-Valid-Until "false";
APT::Sandbox::User "root";
CONF
  say "reading the index of Debian $3"
  apt-get update -qq || die "cannot read the index of Debian $3 from $mirror" \
    "(set HONE_DEBIAN_MIRROR to a mirror that carries it)"
}
