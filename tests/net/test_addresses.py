"""Which addresses tools may reach."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.net.guard import refused

REFUSED = [
    "127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
    "0.1.2.3", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "198.51.100.7",
    "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1", "100::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::7f00:1", "2002:7f00:1::1",
    "64:ff9b::7f00:1", "64:ff9b::a00:1", "2001:0:0:0:0:0:80ff:fffe",
]  # fmt: skip
PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_public_is_refused(text):
    assert refused(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_what_is_public_may_be_reached(text):
    assert not refused(ipaddress.ip_address(text))


def test_an_allowed_network_may_be_reached_in_all_its_spellings():
    allow = [ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8")]
    for text in ("10.1.2.3", "::ffff:10.1.2.3", "fd12::1"):
        assert not refused(ipaddress.ip_address(text), allow)
    for text in ("192.168.0.1", "fe80::1", "::ffff:192.168.0.1"):
        assert refused(ipaddress.ip_address(text), allow)


@given(st.ip_addresses(v=4))
def test_an_address_mapped_into_ipv6_is_judged_as_itself(address):
    assert refused(ipaddress.ip_address(f"::ffff:{address}")) == refused(address)
