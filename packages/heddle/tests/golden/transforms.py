"""Golden numbers of transforms of images: what torchvision makes of images with given parameters.

    python3 transforms.py      # needs torch, torchvision and numpy; writes transforms.json beside this file

make.py says what a case is. `args` are the transform's own, positional ones and options, and `draws`: the uniform numbers
that it draws, from which the parameters follow that torchvision is given here.
"""

import json
import math

import torch

# torchvision's transforms are Python; a build for another torch lacks its compiled ops, which they do not need.
try:
    import torchvision
except RuntimeError:
    library = torch.library.Library("torchvision", "DEF")
    for op in ("nms", "qnms"):
        library.define(f"{op}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.v2 import functional as F

from make import Cases, write

HEIGHT, WIDTH = 7, 9
MODES = {"nearest": InterpolationMode.NEAREST, "bilinear": InterpolationMode.BILINEAR}
RESIZE_MODES = MODES | {"bicubic": InterpolationMode.BICUBIC}


class Images(Cases):
    def case(self, op, images, positional=(), options=None, channels=3):
        """images: a list of (draws, compute), one for each image of a batch."""
        args = {"positional": list(positional), "options": options or {}, "draws": [list(draws) for draws, _ in images]}
        name = f"{op} {json.dumps(args['positional'])} {json.dumps(args['options'])} of {channels}"
        generator = torch.Generator().manual_seed(len(self.cases))
        # Bytes, as images have them.
        x = torch.randint(0, 256, (len(images), channels, HEIGHT, WIDTH), generator=generator) / 255
        compute = lambda x: torch.cat([compute(x[i : i + 1]) for i, (_, compute) in enumerate(images)])
        self.add(name, op, compute, {"x": x}, args)


def span(u, low, high):
    return low + u * (high - low)


def crops(c):
    for mode in ("constant", "edge", "reflect", "symmetric"):
        for fill in (0, 0.5) if mode == "constant" else (0,):
            def compute(x, top, left):
                # 5 of 12 rows from ⌊draw · 8⌋ on, 8 of 14 columns from ⌊draw · 7⌋ on
                return F.crop(F.pad(x, [2, 1, 3, 4], fill=fill, padding_mode=mode), top, left, 5, 8)

            options = {"padding": [2, 1, 3, 4], "paddingMode": mode, "fill": fill}
            c.case("randomCrop", [([0.25, 0.75], lambda x: compute(x, 2, 5)), ([0, 0.9375], lambda x: compute(x, 0, 6))], [[5, 8]], options)
    # Two rows more above and below.
    taller = lambda x: F.crop(F.pad(x, [0, 2]), 0, 2, 9, 7)
    c.case("randomCrop", [([0.25, 0.75], taller)], [[9, 7]], {"padIfNeeded": True})
    c.case("randomHorizontalFlip", [([0.25], F.horizontal_flip), ([0.5], lambda x: x)])
    c.case("randomVerticalFlip", [([0.5], F.vertical_flip), ([0.75], lambda x: x)], options={"p": 0.75})
    for size in ([4, 4], [5, 2], [10, 4], [12, 14]):
        c.case("centerCrop", [([], lambda x: F.center_crop(x, size))], [size])


def affine(c):
    for mode in MODES:
        turned = lambda u: ([u], lambda x: F.rotate(x, span(u, -50, 50), MODES[mode]))
        c.case("randomRotation", [turned(0.125), turned(0.8125)], [50], {"interpolation": mode})
    around = lambda x: F.rotate(x, span(0.25, 10, 40), MODES["nearest"], fill=[0.25, 0.5, 1], center=[2, 3])
    c.case("randomRotation", [([0.25], around)], [[10, 40]], {"fill": [0.25, 0.5, 1], "center": [2, 3]})
    for mode in MODES:
        for center in (None, [3, 1.5]):

            def mapped(*u):
                compute = lambda x: F.affine(
                    x,
                    angle=span(u[0], -30, 30),
                    translate=[
                        round(span(u[1], -0.4 * WIDTH, 0.4 * WIDTH)),
                        round(span(u[2], -0.3 * HEIGHT, 0.3 * HEIGHT)),
                    ],
                    scale=span(u[3], 0.75, 1.5),
                    shear=[span(u[4], -10, 20), span(u[5], 5, 15)],
                    interpolation=MODES[mode],
                    center=center,
                )
                return u, compute

            images = [mapped(0.25, 0.8125, 0.125, 0.75, 0.375, 0.6875), mapped(0.9375, 0.25, 0.5, 0.125, 0.75, 0.0625)]
            options = {"translate": [0.4, 0.3], "scale": [0.75, 1.5], "shear": [-10, 20, 5, 15], "interpolation": mode}
            c.case("randomAffine", images, [30], options | ({"center": center} if center else {}))


def part(draws, scale, ratio, ratio_is_height_by_width, fits):
    """The part that ten attempts give: as RandomResizedCrop and RandomErasing draw it."""
    logs = [math.log(r) for r in ratio]
    for a in range(10):
        area = HEIGHT * WIDTH * span(draws[2 * a], *scale)
        aspect = math.exp(span(draws[2 * a + 1], *logs))
        if ratio_is_height_by_width:
            aspect = 1 / aspect
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if fits(h, w):
            return int(draws[20] * (HEIGHT - h + 1)), int(draws[21] * (WIDTH - w + 1)), h, w
    return None


def expanding(c):
    for degrees in (25, 90, 180, -135):
        for mode in MODES:
            # With a fill torchvision darkens what is bilinear between the image and its outside.
            fill = {"fill": 0.5} if mode == "nearest" else {}
            larger = ([0.5], lambda x: F.rotate(x, degrees, MODES[mode], expand=True, **fill))
            options = {"interpolation": mode, "expand": True} | fill
            c.case("randomRotation", [larger, larger], [[degrees, degrees]], options)


def resizing(c):
    resized(c, [{}, {"antialias": False}, {"interpolation": "nearest"}])


def cubic(c):
    resized(c, [{"interpolation": "bicubic"}, {"interpolation": "bicubic", "antialias": False}])


def resized(c, kinds):
    for options in kinds:
        mode, antialias = RESIZE_MODES[options.get("interpolation", "bilinear")], options.get("antialias", True)
        for size in (5, [14, 5], [7, 20]) if antialias or options.get("interpolation") else ([3, 4],):
            compute = lambda x: F.resize(x, [size] if isinstance(size, int) else size, mode, antialias=antialias)
            c.case("resize", [([], compute)], [size], options)
        scale, ratio = [0.25, 1], [0.5, 2]

        def cropped(draws, scale=scale):
            found = part(draws, scale, ratio, False, lambda h, w: 0 < w <= WIDTH and 0 < h <= HEIGHT)
            assert (found is None) == (scale[0] == 0.98)
            compute = lambda x: F.resized_crop(x, *(found or (0, 0, HEIGHT, WIDTH)), [4, 6], mode, antialias=antialias)
            return draws, compute

        small, large, rest = [0.125, 0.25], [0.875, 0.625], [0.5, 0.75] * 8
        images = [cropped(small + large + rest + [0.375, 0.875]), cropped([1 - 2**-8, 0] + large + rest + [0.75, 0.125])]
        c.case("randomResizedCrop", images, [[4, 6]], {"scale": scale, "ratio": ratio} | options)
        # No attempt fits: the whole image.
        if mode == MODES["nearest"]:
            images = [cropped([0.9375, 0] * 10 + [0.375, 0.875], [0.98, 1])]
            c.case("randomResizedCrop", images, [[4, 6]], {"scale": [0.98, 1], "ratio": ratio, "interpolation": "nearest"})


ADJUST = {
    "brightness": F.adjust_brightness,
    "contrast": F.adjust_contrast,
    "saturation": F.adjust_saturation,
    "hue": F.adjust_hue,
}


def colors(c):
    for name, low, high in (
        ("brightness", 0.5, 1.75),
        ("contrast", 0.25, 2),
        ("saturation", 0, 3),
        ("hue", -0.5, 0.5),
    ):
        for channels in (3, 1):
            adjusted = lambda u: ([u], lambda x: ADJUST[name](x, span(u, low, high)))
            images = [adjusted(u) for u in (0, 0.1875, 0.625)]
            c.case("colorJitter", images, options={name: [low, high]}, channels=channels)

    def jittered(*picks):
        # After the four amounts, of 4, 3 and 2 that are left one is taken, and the last one put in its place.
        amounts = [0.75, 0.25, 0.875, 0.375]
        left, order = list(ADJUST), []
        for pick in picks:
            i = int(pick * len(left))
            order.append(left[i])
            left[i] = left[-1]
            left.pop()

        def compute(x):
            spans = {"brightness": (0.6, 1.4), "contrast": (0.5, 1.5), "saturation": (0.3, 1.7), "hue": (-0.1, 0.1)}
            for name in order + left:
                x = ADJUST[name](x, span(amounts[list(ADJUST).index(name)], *spans[name]))
            return x

        return amounts + list(picks), compute

    images = [jittered(0, 0, 0), jittered(0.8125, 0.5, 0.25), jittered(0.3125, 0.75, 0.75)]
    c.case("colorJitter", images, options={"brightness": 0.4, "contrast": 0.5, "saturation": 0.7, "hue": 0.1})
    c.case("grayscale", [([], lambda x: F.rgb_to_grayscale(x))])
    c.case("grayscale", [([], lambda x: F.rgb_to_grayscale(x, 3))], options={"numOutputChannels": 3})
    c.case("randomGrayscale", [([0.0625], lambda x: F.rgb_to_grayscale(x, 3)), ([0.125], lambda x: x)])
    mean, std = [0.5, 0.25, 0.125], [0.25, 0.5, 2]
    c.case("normalize", [([], lambda x: F.normalize(x, mean, std))], [mean, std])
    c.case("normalize", [([], lambda x: F.normalize(x, [0.5], [0.25]))], [0.5, 0.25])


def erasing(c):
    scale, ratio = [0.1, 1], [0.25, 4]
    for value in (0, [0.5, 0, 1]):

        def erased(first, draws):
            i, j, h, w = part(draws, scale, ratio, True, lambda h, w: h < HEIGHT and w < WIDTH)
            v = torch.tensor(value if isinstance(value, list) else [value]).double()[:, None, None]
            return [first, *draws], lambda x: F.erase(x, i, j, h, w, v) if first < 0.5 else x

        draws = [0.9375, 0.0625, 0.25, 0.75] + [0.5, 0.375] * 8 + [0.4375, 0.8125]
        images = [erased(0.25, draws), erased(0.75, draws), erased(0, [0.375, 0.25] * 11)]
        c.case("randomErasing", images, options={"scale": scale, "ratio": ratio, "value": value})

    def cut(x):
        # Middles ⌊0.125 · 7⌋, ⌊0.875 · 9⌋ and ⌊0.75 · 7⌋, ⌊0.5 · 9⌋; squares of 4 begin 2 before.
        x = x.clone()
        x[..., 0:2, 5:9] = 0.5
        x[..., 3:7, 2:6] = 0.5
        return x

    c.case("cutout", [([0.125, 0.875, 0.75, 0.5], cut)], [4], {"holes": 2, "value": 0.5})


def trivial(c):
    made = v2.TrivialAugmentWide()

    def changed(i, strength, sign):
        name, (magnitudes_of, signed) = list(made._AUGMENTATION_SPACE.items())[i]
        magnitudes = magnitudes_of(31, HEIGHT, WIDTH)
        magnitude = 0.0 if magnitudes is None else float(magnitudes[int(strength * 31)])
        if signed and sign <= 0.5:
            magnitude = -magnitude
        # torchvision's float and byte images differ in these: Heddle's are bytes / 255.
        as_bytes = name in ("Posterize", "Equalize")

        def compute(x):
            given = x.mul(255).round().to(torch.uint8) if as_bytes else x
            out = made._apply_image_or_video_transform(
                given, name, magnitude, MODES["nearest"], {torch.Tensor: None}
            )
            return out.double() / 255 if as_bytes else out

        return [(i + 0.5) / 14, strength, sign], compute

    for channels in (3, 1):
        strengths = ((0.25, 0.25), (0.875, 0.75), (0.0625, 0.625))
        images = [changed(i, *strength) for i in range(len(made._AUGMENTATION_SPACE)) for strength in strengths]
        c.case("trivialAugmentWide", images, channels=channels)


def main():
    c = Images()
    for family in (crops, affine, resizing, colors, erasing, trivial, expanding, cubic):
        family(c)
    write("transforms", cases=c.cases)
    print(f"{len(c.cases)} cases")


if __name__ == "__main__":
    main()
