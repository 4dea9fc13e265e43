"""What a server does on its device for each call of a client, and what it has lent meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from mats.device import Buffer, DeviceError, DeviceLost, OutOfMemory
from mats.peer import messages as say
from mats.peer.greeting import Watch
from mats.peer.lending import Member

RAISED: tuple[type[Exception], ...] = (DeviceError, OutOfMemory, DeviceLost, TypeError)
"""What a device raises to a probe, and a server's device therefore to the client's."""


class Desk:
    """The loans of one session. Used by one thread at a time."""

    def __init__(self, member: Member, watch: Watch) -> None:
        self._device, self._lending, self._watch = member.device, member.lending, watch
        self._loans: dict[int, Buffer] = {}
        self._numbered = 0
        self.most = 0
        """Bytes that were lent at most."""

    def do(self, call: say.Message) -> say.Reply:
        """The answer to a call, also where the device refuses it. Raises MessageError for what is no call."""
        try:
            return self._do(call)
        except (DeviceError, TypeError) as error:
            return say.Failure(_kind(error), str(error))

    def _do(self, call: say.Message) -> say.Reply:
        device = self._device
        match call:
            case say.Allocate(size):
                return self._allocate(size)
            case say.Free(number):
                self._free(number)
            case say.Launch(kernel, tiles, arguments):
                return self._launch(kernel, tiles, arguments)
            case say.Copy(destination, source, offset, repeats):
                with self._opened((destination, source)) as (to, of):
                    return say.Seconds(device.copy(to, of, offset=offset, repeats=repeats))
            case say.Put(destination, offset, data, repeats):
                content = say.unpack_bytes(data)
                return say.Seconds(device.copy(self._place(destination), content, offset=offset, repeats=repeats))
            case say.Fetch(source):
                if source.size > say.PIECE:
                    raise say.MessageError(f"{source.size} bytes were asked for; one message carries {say.PIECE}")
                return say.Content(say.pack_bytes(device.fetch(self._place(source), 0, source.size)))
            case say.Synchronise():
                device.synchronise()
            case say.Wait(seconds):
                device.wait(seconds)
            case _:
                return self._tell(call)
        return say.Done()

    def _tell(self, call: say.Message) -> say.Reply:
        match call:
            case say.AskMemory():
                return say.State(self._device.memory())
            case say.AskConditions():
                return say.Surroundings(self._device.conditions())
            case say.AskHostLink():
                return say.ToHost(self._device.host_link())
            case say.AskHolders():
                return say.Holders(self._device.holders())
            case say.AskTime():
                return say.Seconds(self._device.now())
            case _:
                raise say.MessageError(f"{say.name_of(call)} is nothing that a server can be asked")

    def _allocate(self, size: int) -> say.Loan:
        buffer = self._device.allocate(size)
        self._numbered += 1
        self._loans[self._numbered] = buffer
        try:
            handle = self._lending.export(buffer)
        except BaseException:
            del self._loans[self._numbered]
            self._device.free(buffer)
            raise
        self._watch("exported")
        self.most = max(self.most, sum(loan.size for loan in self._loans.values()))
        return say.Loan(self._numbered, say.pack_bytes(handle))

    def _free(self, number: int) -> None:
        buffer = self._loans.pop(number, None)
        if buffer is None:
            raise DeviceError(f"nothing is lent under number {number}")
        try:
            self._lending.withdraw(buffer)
        finally:
            self._device.free(buffer)

    def _launch(self, kernel: str, tiles: int, arguments: tuple[say.Argument, ...]) -> say.Seconds:
        given = {argument.name: argument.value for argument in arguments}
        places = {name: value for name, value in given.items() if not isinstance(value, int)}
        numbers = {name: value for name, value in given.items() if isinstance(value, int)}
        with self._opened(places.values()) as buffers:
            self._watch("launching")
            pointers = dict(zip(places, buffers, strict=True))
            return say.Seconds(self._device.launch(kernel, tiles, **pointers, **numbers))

    @contextlib.contextmanager
    def _opened(self, places: Iterable[say.Place | say.Handle]) -> Iterator[tuple[Buffer, ...]]:
        """Each as memory that this device reaches; what is the client's is opened until the end, once."""
        opened: dict[say.Handle, Buffer] = {}
        found = []
        try:
            for place in places:
                if isinstance(place, say.Place):
                    found.append(self._place(place))
                    continue
                if place not in opened:
                    opened[place] = self._lending.open(say.unpack_bytes(place.handle), place.length)
                found.append(opened[place])
            yield tuple(found)
        finally:
            for buffer in opened.values():
                self._lending.close(buffer)

    def _place(self, place: say.Place) -> Buffer:
        loan = self._loans.get(place.number)
        if loan is None:
            raise DeviceError(f"nothing is lent under number {place.number}")
        if place.offset < 0 or place.size < 0 or place.offset + place.size > loan.size:
            raise DeviceError(
                f"bytes {place.offset} to {place.offset + place.size} are not within the {loan.size} that are lent"
            )
        return Buffer(loan.address + place.offset, place.size)

    def give_back(self) -> str:
        """Free every loan, also where one of them cannot be. Gives why, in a clause, or nothing."""
        why = ""
        for number in tuple(self._loans):
            try:
                self._free(number)
            except DeviceError as error:
                why = why or f"not all that was lent could be given back: {error}"
        return why


def _kind(error: Exception) -> str:
    """Name of the class as which the client raises it again: of one that it does not know, of its parent."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind in RAISED)
